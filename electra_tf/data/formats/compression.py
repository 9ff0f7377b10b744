"""Compressed files as streams, recognized by name or by their first bytes."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from electra_tf.util import optional_packages

ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)
"""Exceptions that the readers raise for a damaged file."""

HEAD_BYTES = 10
MAX_DICTIONARY_BYTES = 2**28
"""Memory limit of the decoder of .xz files: four times what `xz -9` needs."""

ENDINGS = (".gz", ".xz", ".bz2", ".zst")
"""File extensions of single compressed files."""


class Codec(NamedTuple):
    """A compression format."""

    decompress: Callable[[BinaryIO], BinaryIO]
    expansion: int


def _zstd(file: BinaryIO) -> BinaryIO:
    arrow = optional_packages.load("pyarrow")
    return arrow.input_stream(file, compression="zstd")


class _StreamsReader(io.RawIOBase):
    """Reads the streams of an .xz or .bz2 file, one after the other."""

    def __init__(
        self,
        file: BinaryIO,
        decompressor: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor],
        padding: bytes = b"",
    ) -> None:
        self._file = file
        self._decompressor = decompressor
        self._padding = padding
        self._stream: lzma.LZMADecompressor | bz2.BZ2Decompressor | None = None
        self._packed = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        content = b""
        while not content and (self._stream or self._has_next()):
            if self._stream.needs_input and not self._packed:
                self._packed = self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not self._packed:
                    raise EOFError("the file ends inside a stream")
            content = self._stream.decompress(self._packed, len(buffer))
            self._packed = b""
            if self._stream.eof:
                self._packed = self._stream.unused_data
                self._stream = None
        buffer[: len(content)] = content
        return len(content)

    def _has_next(self) -> bool:
        """Begins the next stream, if there is one after the padding."""
        while not (rest := self._packed.lstrip(self._padding)):
            self._packed = self._file.read(io.DEFAULT_BUFFER_SIZE)
            if not self._packed:
                return False
        self._packed = rest
        self._stream = self._decompressor()
        return True


def _xz(file: BinaryIO) -> BinaryIO:
    def decompressor() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(memlimit=MAX_DICTIONARY_BYTES)

    return io.BufferedReader(_StreamsReader(file, decompressor, b"\0"))


def _bz2(file: BinaryIO) -> BinaryIO:
    return io.BufferedReader(_StreamsReader(file, bz2.BZ2Decompressor))


_GZ = Codec(gzip.open, 3)
_XZ = Codec(_xz, 4)
_BZ2 = Codec(_bz2, 4)
_ZST = Codec(_zstd, 3)
_CODECS = dict(zip(ENDINGS, (_GZ, _XZ, _BZ2, _ZST), strict=True))
_CODECS |= {f".t{x[1:]}": codec for x, codec in _CODECS.items()}  # as .tgz
_MAGIC = {
    b"\x1f\x8b\x08": _GZ,
    b"\xfd7zXZ\0": _XZ,
    b"BZh": _BZ2,
    b"\x28\xb5\x2f\xfd": _ZST,
}
_BZ2_BLOCK = (b"1AY&SY", b"\x17rE8P\x90")  # after "BZh" and a digit


def is_compressed(name: str) -> bool:
    """Returns whether a file is compressed, by its name."""
    return _extension(name) in _CODECS


def expansion(name: str) -> int:
    """Returns the approximate bytes of text per byte of the file."""
    return _CODECS[_extension(name)].expansion if is_compressed(name) else 1


def decompress(name: str, file: BinaryIO) -> tuple[str, BinaryIO]:
    """Decompresses a file according to the extension of its name."""
    if not is_compressed(name):
        return name, file
    extension = _extension(name)
    return name[: -len(extension)], _CODECS[extension].decompress(file)


def codec_of(head: bytes) -> Codec | None:
    """Returns the codec of a file; None if it is not compressed."""
    for magic, codec in _MAGIC.items():
        if head.startswith(magic):
            is_text = codec is _BZ2 and head[4:10] not in _BZ2_BLOCK
            return None if is_text else codec
    return None


def _extension(name: str) -> str:
    return os.path.splitext(name)[1].lower()
