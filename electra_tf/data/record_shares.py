"""Reads the records of one worker from local TFRecord files, by byte ranges.

A TFRecord file has no index. So the size of each record is read first, from
the first 8 bytes of its frame (see `recovery`), and kept in 4 bytes of memory.
Then the frames of a share are read, adjacent ones in one piece, and staged as a
file in memory, so that TensorFlow reads them as any other file and verifies
their checksums.
"""

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from electra_tf.data.records import RecordFile
from electra_tf.data.recovery import FRAME_BYTES
from electra_tf.util import storage

_SIZE_BYTES = 8


class ShareReader:
    """Stages chosen records of local files, and reads no other records."""

    def __init__(self, files: Iterable[RecordFile]) -> None:
        self._files = {file.path: file for file in files}
        self._sizes: dict[str, np.ndarray | None] = {}

    def stage(
        self, paths: Sequence[str], order: np.ndarray
    ) -> tuple[str, np.ndarray] | None:
        """Copies records into a file in memory."""
        ascending = np.sort(order)
        pieces: list[bytes] = []
        first = 0
        for path in paths:
            end = first + self._files[path].num_records
            chosen = ascending[slice(*np.searchsorted(ascending, [first, end]))]
            if chosen.size:
                with open(path, "rb", buffering=0) as opened:
                    descriptor = opened.fileno()
                    sizes = self._sizes_of(descriptor, path)
                    if sizes is None:
                        return None
                    pieces += _read_frames(descriptor, sizes, chosen - first)
            first = end
        staged = f"ram://{uuid.uuid4()}"
        storage.write_bytes(staged, b"".join(pieces))
        return staged, np.searchsorted(ascending, order)

    def _sizes_of(self, descriptor: int, path: str) -> np.ndarray | None:
        """Returns the sizes of a file's records, uint32 [records], or None."""
        if self._sizes.get(path) is None:
            self._sizes[path] = _read_sizes(descriptor, self._files[path])
        return self._sizes[path]


def _read_sizes(descriptor: int, file: RecordFile) -> np.ndarray | None:
    """Reads the sizes of records, uint32 [records]."""
    end = os.fstat(descriptor).st_size
    sizes = np.empty(file.num_records, np.uint32)
    position = 0
    for number in range(file.num_records):
        header = os.pread(descriptor, _SIZE_BYTES, position)
        size = int.from_bytes(header, "little")
        position += size + FRAME_BYTES
        if position > end:
            return None
        sizes[number] = size
    return sizes if position == end else None


def _read_frames(
    descriptor: int, sizes: np.ndarray, chosen: np.ndarray
) -> Iterator[bytes]:
    """Yields the frames of records, adjacent ones in one piece."""
    sizes = sizes.astype(np.int64)
    ends = np.cumsum(sizes + FRAME_BYTES)
    breaks = np.flatnonzero(np.diff(chosen) > 1)
    firsts = chosen[np.append(0, breaks + 1)]
    lasts = chosen[np.append(breaks, len(chosen) - 1)]
    starts = ends[firsts] - sizes[firsts] - FRAME_BYTES
    for start, end in zip(starts.tolist(), ends[lasts].tolist(), strict=True):
        yield os.pread(descriptor, end - start, start)
