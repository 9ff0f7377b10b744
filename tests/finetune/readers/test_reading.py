import bz2
import gzip
import lzma

import pytest

from electra_tf.finetune.readers import reading
from electra_tf.util.errors import UserError


def test_only_a_line_feed_ends_a_line(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes("\ufeffa\u2028b\tc\r\n\nd\x0be\x85".encode())
    lines = reading.read_lines(path)
    assert [tuple(line) for line in lines] == [
        (1, "a\u2028b\tc"),
        (2, ""),
        (3, "d\x0be\x85"),
    ]


@pytest.mark.parametrize("content", [None, b"", b"\n \n"])
def test_a_file_must_be_there_and_hold_something(tmp_path, content):
    path = tmp_path / "x.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.tsv must .* Received: "):
        reading.read_lines(path)


def _zstd(content):
    arrow = pytest.importorskip("pyarrow")
    return arrow.compress(content, codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    ("ending", "pack"),
    [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)]
    + [("zst", _zstd)],
)
def test_a_compressed_file_is_read_if_it_is_whole(ending, pack, tmp_path):
    path = tmp_path / f"x.jsonl.{ending}"
    packed = pack(b"a\nb\n")
    path.write_bytes(packed)
    assert [line.text for line in reading.read_lines(path)] == ["a", "b"]
    for content in (packed[:-9], packed[:2] + b"?" + packed[3:], b"a\n"):
        path.write_bytes(content)
        refused = rf"{ending} must be a whole \.{ending} file"
        with pytest.raises(UserError, match=refused):
            reading.read_lines(path)


def _columns(line):
    if line.text is None or line.text.count("\t") != 1:
        raise reading.BadRowError("A row must have 2 columns. Received: 1.")
    return line.text.split("\t")


def test_a_bad_row_is_an_error_with_its_place_or_is_counted(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"a\tb\nc\n\xff\td\n")
    lines = reading.read_lines(path)
    strict = reading.BadRows(skip=False)
    with pytest.raises(UserError, match=r"x\.tsv, line 2: .* Received: 1\."):
        for line in lines:
            with strict.at(path, line.number):
                _columns(line)
    with (
        pytest.raises(UserError, match=r"x\.tsv, question 7: Wrong\. Mend"),
        strict.at(path, "question 7"),
    ):
        raise reading.BadRowError("Wrong.")
    good, lenient = [], reading.BadRows(skip=True)
    for line in lines:
        with lenient.at(path, line.number):
            good.append(_columns(line))
    assert good == [["a", "b"]] and lenient.counts == {str(path): 2}
    (note,) = lenient.notes
    assert note.startswith(f"2 bad rows of {path} are left out. The first, ")
    assert "first, line 2: A row must have 2 columns" in note


def test_a_bad_row_counts_once_however_often_its_file_is_read(tmp_path):
    path, lenient = tmp_path / "x.tsv", reading.BadRows(skip=True)
    for line in (2, 3, 2):
        with lenient.at(path, line):
            raise reading.BadRowError("A row must be good.")
    assert lenient.counts == {str(path): 2}
