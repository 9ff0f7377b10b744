"""Compressed files are read back exactly, in bounded memory."""

import bz2
import gzip
import io
import lzma

import pytest

from electra_tf.data.formats import compression

TEXTS = [b"", b"short", bytes(range(256)) * 999]


COMPRESS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
BY_STREAM = (".xz", ".bz2")  # read by `_StreamsReader`


def _read(content, extension=".xz", size=-1):
    _, file = compression.decompress(f"x{extension}", io.BytesIO(content))
    parts = [file.read(size)]
    while size > 0 and parts[-1]:
        parts.append(file.read(size))
    return b"".join(parts)


@pytest.mark.parametrize("size", [-1, 7, 2**16])
@pytest.mark.parametrize("extension", COMPRESS)
def test_several_streams_are_read_as_one_file(extension, size):
    parts = map(COMPRESS[extension], TEXTS)
    assert _read(b"".join(parts), extension, size) == b"".join(TEXTS)
    assert _read(b"", extension) == b""


@pytest.mark.parametrize("padding", [b"\0" * 4, b"\0" * 40_000])
def test_zeros_between_xz_streams_are_padding(padding):
    parts = [lzma.compress(text) + padding for text in TEXTS]
    assert _read(b"".join(parts)) == b"".join(TEXTS)
    assert _read(padding) == b""


@pytest.mark.parametrize("position", range(10))
@pytest.mark.parametrize("extension", BY_STREAM)
def test_no_damaged_stream_is_taken_for_the_end(extension, position):
    first, damaged, last = map(COMPRESS[extension], (b"a", b"text" * 99, b"b"))
    damaged = bytearray(damaged)
    damaged[position] ^= 0x55
    with pytest.raises(compression.ERRORS):
        _read(first + damaged + last, extension)


@pytest.mark.parametrize("size", [1, 20, -1, -30])
@pytest.mark.parametrize("extension", BY_STREAM)
def test_a_truncated_stream_is_an_error(extension, size):
    with pytest.raises(EOFError, match="inside a stream"):
        _read(COMPRESS[extension](TEXTS[2])[:size], extension)


@pytest.mark.parametrize("extension", COMPRESS)
def test_other_bytes_after_a_stream_are_an_error(extension):
    with pytest.raises(compression.ERRORS):
        _read(COMPRESS[extension](b"text") + b"text", extension)


def test_an_xz_header_cannot_exceed_the_memory_limit(monkeypatch):
    packed = lzma.compress(TEXTS[2])  # with a dictionary of 8 MiB
    monkeypatch.setattr(compression, "MAX_DICTIONARY_BYTES", 2**22)
    with pytest.raises(lzma.LZMAError, match="[Mm]emory"):
        _read(packed)
