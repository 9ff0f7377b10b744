"""The index of a tensor bundle, checked before TensorFlow opens it.

TensorFlow allocates whatever size an index states, and aborts the process if
that fails or if an entry is invalid. So the index is parsed here first: it is a
LevelDB table of blocks of names and entries, a block with the offsets of these
blocks, and a footer with the offset of that block.
"""

import math
import os
import pathlib
from collections.abc import Iterator

import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import tensor_bundle_pb2

_FOOTER_BYTES = 48
_MAGIC = bytes.fromhex("57fb808b247547db")
_TRAILER_BYTES = 5  # after a block: its compression, and a checksum
_MAX_DIMENSIONS = 254  # of a tensor in TensorFlow
_REFERENCES = 100  # dtypes from here on are references to variables


def check(path: str | os.PathLike[str], num_bytes: int) -> None:
    """Checks that TensorFlow can open an index, and what it would allocate."""
    for name, entry in _entries(pathlib.Path(path).read_bytes()):
        try:
            if name:
                parsed = tensor_bundle_pb2.BundleEntryProto.FromString(entry)
                _check_array(name, parsed, num_bytes)
            else:
                tensor_bundle_pb2.BundleHeaderProto.FromString(entry)
        except message.DecodeError as error:
            raise ValueError(f"an invalid entry: {name!r}") from error


def _check_array(
    name: bytes, entry: tensor_bundle_pb2.BundleEntryProto, num_bytes: int
) -> None:
    """Checks that an entry is an array of numbers that fits into the data."""
    sizes = [dimension.size for dimension in entry.shape.dim]
    try:
        dtype = tf.dtypes.as_dtype(entry.dtype)
    except TypeError as error:
        raise ValueError(f"{name!r} of an unknown type") from error
    is_number = dtype.is_floating or dtype.is_integer or dtype.is_bool
    is_plain = entry.dtype < _REFERENCES and not entry.slices
    if not (is_number and is_plain) or entry.shape.unknown_rank:
        raise ValueError(f"{name!r}, which is not an array of numbers")
    # Zeros are skipped, as TensorFlow multiplies sizes from the left.
    num_numbers = math.prod(size or 1 for size in sizes)
    is_shape = min(sizes, default=0) >= 0 and len(sizes) <= _MAX_DIMENSIONS
    if not is_shape or num_numbers * dtype.size > max(num_bytes, 8):
        raise ValueError(
            f"{name!r} of shape {sizes[:8]}, more than {num_bytes} bytes"
        )


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields name and entry of each array; the header's name is empty."""
    if len(content) < _FOOTER_BYTES or not content.endswith(_MAGIC):
        raise ValueError("not the index of a bundle")
    footer = _Cursor(content[-_FOOTER_BYTES:])
    footer.numbers(2)  # offset and size of a block that is not used
    for _, place in _block(content, *footer.numbers(2)):
        yield from _block(content, *_Cursor(place).numbers(2))


def _block(
    content: bytes, start: int, size: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yields names and values of a block."""
    end = start + size
    if size < 4 or end + _TRAILER_BYTES > len(content) or content[end]:
        raise ValueError("a block that exceeds the index")
    num_restarts = int.from_bytes(content[end - 4 : end], "little")
    cursor = _Cursor(content[start : max(start, end - 4 * (num_restarts + 1))])
    name = b""
    while cursor.is_inside:
        shared, added, length = cursor.numbers(3)
        name = name[:shared] + cursor.take(added)
        yield name, cursor.take(length)


class _Cursor:
    """Reads bytes and numbers sequentially."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    @property
    def is_inside(self) -> bool:
        """Whether there are bytes left."""
        return self._position < len(self._content)

    def take(self, size: int) -> bytes:
        """Returns the next bytes."""
        taken = self._content[self._position : self._position + size]
        if len(taken) < size:
            raise ValueError("an index that ends too early")
        self._position += size
        return taken

    def numbers(self, count: int) -> list[int]:
        """Returns the next varints (7 bits per byte, lowest first)."""
        found = []
        for _ in range(count):
            number, shift, byte = 0, 0, 0x80
            while byte & 0x80:
                (byte,) = self.take(1)
                if shift > 63:
                    raise ValueError("an unterminated number in the index")
                number |= (byte & 0x7F) << shift
                shift += 7
            found.append(number)
        return found
