"""Compressed files are read back exactly, in bounded memory."""

import io
import lzma

import pytest

from electra_tf.data.formats import compression

TEXTS = [b"", b"short", bytes(range(256)) * 999]


def _read(content, size=-1):
    _, file = compression.decompress("x.xz", io.BytesIO(content))
    parts = [file.read(size)]
    while size > 0 and parts[-1]:
        parts.append(file.read(size))
    return b"".join(parts)


@pytest.mark.parametrize("size", [-1, 7, 2**16])
@pytest.mark.parametrize("padding", [b"", b"\0" * 4, b"\0" * 40_000])
def test_several_xz_streams_are_read_as_one_file(padding, size):
    parts = [lzma.compress(text) + padding for text in TEXTS]
    assert _read(b"".join(parts), size) == b"".join(TEXTS)
    assert _read(padding) == b""


@pytest.mark.parametrize("size", [1, 20, -1, -30])
def test_a_truncated_xz_stream_is_an_error(size):
    with pytest.raises(EOFError, match="inside a stream"):
        _read(lzma.compress(TEXTS[2])[:size])


def test_other_bytes_after_an_xz_stream_are_an_error():
    with pytest.raises(lzma.LZMAError):
        _read(lzma.compress(b"text") + b"text")


def test_an_xz_header_cannot_exceed_the_memory_limit(monkeypatch):
    packed = lzma.compress(TEXTS[2])  # with a dictionary of 8 MiB
    monkeypatch.setattr(compression, "MAX_DICTIONARY_BYTES", 2**22)
    with pytest.raises(lzma.LZMAError, match="[Mm]emory"):
        _read(packed)
