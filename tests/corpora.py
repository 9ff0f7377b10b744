"""Writes, compresses and damages the files of a corpus."""

import bz2
import gzip
import io
import lzma
import tarfile

import pyarrow

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


def write(path, content, compressed=""):
    """Writes text or bytes; `compressed` is a key of `COMPRESS`, or empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(COMPRESS.get(compressed, bytes)(content))
    return path


def flip_bit(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def tar(members):
    """Packs (name or TarInfo, bytes) pairs into a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
