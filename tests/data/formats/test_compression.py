import bz2
import gzip
import io
import lzma

import pyarrow
import pytest

from electra_tf.data.formats import compression

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_name_tells_how_to_read_a_file(ending):
    name = f"a.txt{ending.upper()}"
    assert compression.is_compressed(name)
    content = io.BytesIO(COMPRESS[ending](b"text"))
    plain, file = compression.decompress(name, content)
    assert plain == "a.txt" and file.read() == b"text"
    assert compression.expansion(name) > 1


def test_other_files_are_read_as_they_are():
    assert not compression.is_compressed("a.txt")
    assert compression.expansion("a.txt") == 1
    content = io.BytesIO(b"text")
    assert compression.decompress("a.txt", content) == ("a.txt", content)


@pytest.mark.parametrize("ending", COMPRESS)
def test_the_first_bytes_tell_how_to_read_a_file(ending):
    for text in (b"text", b""):
        content = io.BufferedReader(io.BytesIO(COMPRESS[ending](text)))
        head = content.peek()[: compression.HEAD_BYTES]
        assert compression.is_compressed_content(head)
        assert compression.decompress_content(content).read() == text


@pytest.mark.parametrize("head", [b"BZh9 is text", b"text", b"", b"\x1f"])
def test_other_bytes_tell_of_no_compression(head):
    assert not compression.is_compressed_content(head)
