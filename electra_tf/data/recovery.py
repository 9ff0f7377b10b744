"""Recovery of the records of damaged TFRecord files.

A file is a sequence of frames: the size of a record (8 bytes, little-endian),
a checksum of the size (4 bytes), the record, and a checksum of the record (4
bytes). A corrupt record loses no other. A corrupt size loses the records up to
the next valid header, a size with its checksum.
"""

import contextlib

import tensorflow as tf

from electra_tf.util import console, storage
from electra_tf.util.errors import UserError

_HEADER_BYTES = 12
_CHECKSUM_BYTES = 4
FRAME_BYTES = _HEADER_BYTES + _CHECKSUM_BYTES
"""Bytes around a record."""

_TABLE = range(256)
for _ in range(8):  # to the CRC-32C (Castagnoli) of each byte
    _TABLE = [(crc >> 1) ^ (0x82F63B78 * (crc & 1)) for crc in _TABLE]


class FaultTolerantReader:
    """Reads files in full, and puts intact records in place of damaged ones."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def read(self, path: str, num_records: int) -> tf.Tensor:
        """Returns the records of a file, string [records]."""
        if find_impossible_size(path) is None:
            with contextlib.suppress(tf.errors.DataLossError):
                dataset = tf.data.TFRecordDataset(path).batch(tf.int64.max)
                records = next(iter(dataset), tf.constant([], tf.string))
                if len(records) == num_records:
                    return records
        found = recover(path, num_records)
        intact = [record for record in found if record is not None]
        if not intact:
            raise UserError(
                f"{path} must hold at least one intact record. Received: none "
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
                "records are damaged and skipped; intact records of the file "
                "are repeated in their place."
            )


def find_impossible_size(path: str, max_records: int = -1) -> int | None:
    """Finds a record whose size, with a valid checksum, exceeds its file."""
    if storage.is_remote(path):
        return None
    size, position, number = storage.size(path), 0, 0
    with storage.open_binary(path) as file:
        while number != max_records:
            file.seek(position)
            header = file.read(_HEADER_BYTES)
            position += int.from_bytes(header[:-_CHECKSUM_BYTES], "little")
            position += FRAME_BYTES
            if len(header) < _HEADER_BYTES or position > size:
                is_sound = header == _with_checksum(header[:-_CHECKSUM_BYTES])
                return number if is_sound else None
            number += 1
    return None


def recover(path: str, num_records: int | None = None) -> list[bytes | None]:
    """Reads the records of a damaged file."""
    content = storage.read_bytes(path)
    found: list[bytes | None] = []
    gaps: dict[int, int] = {}  # place in `found` -> bytes without a size
    position = 0
    while position < len(content):
        end = _frame_end(content, position)
        if end is None:
            start = position
            position += 1
            while position < len(content) and not _frame_end(content, position):
                position += 1
            gaps[len(found)] = position - start
            found.append(None)
        else:
            frame = content[position + _HEADER_BYTES : end]
            record = frame[:-_CHECKSUM_BYTES]
            found.append(record if frame == _with_checksum(record) else None)
            position = end
    if num_records is None:
        return found
    return _with_all_lost(found, gaps, num_records)


def _with_all_lost(
    found: list[bytes | None], gaps: dict[int, int], num_records: int
) -> list[bytes | None]:
    """Puts more lost records into gaps, in proportion to their bytes."""
    num_missing = max(0, num_records - len(found))
    num_bytes = sum(gaps.values())
    for place in sorted(gaps, reverse=True):
        share = round(num_missing * gaps[place] / num_bytes)
        found[place:place] = [None] * share
        num_missing -= share
        num_bytes -= gaps[place]
    return (found + [None] * num_missing)[:num_records]


def _frame_end(content: bytes, position: int) -> int | None:
    """Returns where a frame ends; None if its size is damaged or too large."""
    header = content[position : position + _HEADER_BYTES]
    size = header[:-_CHECKSUM_BYTES]
    end = position + int.from_bytes(size, "little") + FRAME_BYTES
    # Random bytes are rarely a size that fits, so that most need no checksum.
    is_intact = end <= len(content) and header == _with_checksum(size)
    return end if is_intact else None


def _with_checksum(data: bytes) -> bytes:
    """Returns bytes followed by their masked CRC-32C, as in TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return data + masked.to_bytes(_CHECKSUM_BYTES, "little")
