"""Recovery of the records of damaged TFRecord files.

A file is a sequence of frames: the size of a record (8 bytes, little-endian),
a checksum of these, the record, and a checksum of it (4 bytes each). A corrupt
record is lost alone. A corrupt size loses the records up to the next valid
header, a size with its checksum.
"""

import numpy as np
import tensorflow as tf

from electra_tf.util import console, storage
from electra_tf.util.errors import UserError

_SIZE_BYTES = 8
_HEADER_BYTES = 12
_FRAME_BYTES = 16  # around a record
_BLOCK_RECORDS = 1024
_BLOCK_BYTES = 2**16


def _crc_table() -> np.ndarray:
    """Returns the CRC-32C (Castagnoli) of each byte, uint32 [256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ 0x82F63B78, table >> 1)
    return table.astype(np.uint32)


_TABLE = _crc_table()


class FaultTolerantReader:
    """Reads files in full, with intact records in the place of damaged ones.

    Every file keeps its number of records, so that damage moves no other record
    within the order of training. Each damaged file is reported once.
    """

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def read(self, path: str, num_records: int) -> tf.Tensor:
        """Returns the records of a file, string [records].

        Args:
          path: of the file.
          num_records: that it has or had.

        Raises:
          UserError: if no record of it is intact.
        """
        try:
            dataset = tf.data.TFRecordDataset(path).batch(tf.int64.max)
            records = next(iter(dataset), tf.constant([], tf.string))
            if len(records) == num_records:
                return records
        except tf.errors.DataLossError:
            pass
        found = recover(path)
        found += [None] * (num_records - len(found))
        found = found[:num_records]
        intact = [record for record in found if record is not None]
        if not intact:
            raise UserError(
                f"{path} must hold a record that can be read. Received: none "
                f"of {num_records:,}. Restore the file or build the data set "
                "again."
            )
        self._report(path, num_records, len(intact))
        return tf.constant(
            [
                intact[number % len(intact)] if record is None else record
                for number, record in enumerate(found)
            ]
        )

    def _report(self, path: str, num_records: int, num_intact: int) -> None:
        if path not in self._reported:
            self._reported.add(path)
            console.warn(
                f"{path}: {num_records - num_intact:,} of {num_records:,} "
                "records are damaged and left out; others of the file are "
                "read once more instead."
            )


def recover(path: str) -> list[bytes | None]:
    """Reads the records of a damaged file.

    Args:
      path: of the file.

    Returns:
      The records in order. None stands for a damaged one, and for a damaged
      size, whatever number of records is lost there.
    """
    content = storage.read_bytes(path)
    data = np.frombuffer(content, np.uint8)
    found: list[bytes | None] = []
    position = 0
    while position < len(content):
        frames = _frames(content, data, position)
        found += _records(content, data, frames)
        if frames:
            start, size = frames[-1]
            position = start + size + _FRAME_BYTES
        if position < len(content):
            found.append(None)
            position = _next_frame(content, data, position + 1)
    return found


def _frames(
    content: bytes, data: np.ndarray, position: int
) -> list[tuple[int, int]]:
    """Returns start and size of the frames that follow before a damaged size.

    Args:
      content: of the file.
      data: the same as uint8.
      position: of the first frame.
    """
    frames = []
    while position + _FRAME_BYTES <= len(content):
        size = _number(content, position, _SIZE_BYTES)
        if position + size + _FRAME_BYTES > len(content):
            break
        frames.append((position, size))
        position += size + _FRAME_BYTES
    starts = np.array([start for start, _ in frames], np.int64)
    is_intact = _has_valid_header(data, starts)
    return frames if is_intact.all() else frames[: int(is_intact.argmin())]


def _records(
    content: bytes, data: np.ndarray, frames: list[tuple[int, int]]
) -> list[bytes | None]:
    """Returns the records of frames; None for those with a wrong checksum."""
    records: list[bytes | None] = []
    for first in range(0, len(frames), _BLOCK_RECORDS):
        block = frames[first : first + _BLOCK_RECORDS]
        sizes = np.array([size for _, size in block])
        rows = np.zeros([len(block), sizes.max()], np.uint8)
        for row, (start, size) in zip(rows, block, strict=True):
            row[:size] = data[start + _HEADER_BYTES :][:size]
        computed = _checksums(rows, sizes)
        for (start, size), checksum in zip(block, computed, strict=True):
            end = start + _HEADER_BYTES + size
            is_intact = _number(content, end, 4) == checksum
            records.append(
                content[start + _HEADER_BYTES : end] if is_intact else None
            )
    return records


def _next_frame(content: bytes, data: np.ndarray, position: int) -> int:
    """Returns the first position from one on at which a frame may begin."""
    while position + _FRAME_BYTES <= len(content):
        end = min(position + _BLOCK_BYTES, len(content) - _FRAME_BYTES + 1)
        starts = np.arange(position, end)
        for start in starts[_has_valid_header(data, starts)].tolist():
            size = _number(content, start, _SIZE_BYTES)
            if start + size + _FRAME_BYTES <= len(content):
                return start
        position = end
    return len(content)


def _has_valid_header(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns whether positions hold a size with its checksum.

    Args:
      data: uint8 [bytes].
      starts: int64 [n].

    Returns:
      bool [n].
    """
    headers = data[starts[:, None] + np.arange(_HEADER_BYTES)]
    sizes, stored = np.split(headers, [_SIZE_BYTES], axis=1)
    stored = np.ascontiguousarray(stored).view("<u4")[:, 0]
    return _checksums(sizes, np.full(len(starts), _SIZE_BYTES)) == stored


def _checksums(rows: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the checksum of each row, as the files have them.

    Args:
      rows: uint8 [n, bytes].
      sizes: int64 [n], the bytes of each that count.

    Returns:
      uint32 [n].
    """
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column, values in enumerate(rows.T):
        updated = _TABLE[(crc ^ values) & 0xFF] ^ (crc >> 8)
        crc = np.where(column < sizes, updated, crc)
    crc = ~crc
    rotated = (crc >> 15) | (crc << 17)
    return rotated + np.uint32(0xA282EAD8)  # modulo 2^32


def _number(content: bytes, position: int, num_bytes: int) -> int:
    return int.from_bytes(content[position : position + num_bytes], "little")
