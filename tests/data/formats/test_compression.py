"""Compression is told by the ending of a name, or by the first bytes."""

import io

import pytest
from corpora import COMPRESS

from electra_tf.data.formats import compression


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_name_or_the_first_bytes_tell_how_to_read_a_file(ending):
    name = f"a.txt{ending.upper()}"
    assert compression.is_compressed(name)
    assert compression.expansion(name) > compression.expansion("a.txt") == 1
    for text in (b"text", b""):
        packed = COMPRESS[ending](text)
        plain, file = compression.decompress(name, io.BytesIO(packed))
        assert plain == "a.txt" and file.read() == text
        content = io.BufferedReader(io.BytesIO(packed))
        assert compression.is_compressed_content(content.peek())
        assert compression.decompress_content(content).read() == text


@pytest.mark.parametrize("head", [b"BZh9 is text", b"text", b"", b"\x1f"])
def test_other_files_are_read_as_they_are(head):
    assert not compression.is_compressed_content(head)
    content = io.BytesIO(head)
    assert compression.decompress("a.txt", content) == ("a.txt", content)
