"""The ranges of a file hold its documents exactly, wherever it is cut."""

import gzip
import json
import os
import tempfile
from unittest import mock

import pytest
from corpora import read, tar, write
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.data import sources
from electra_tf.data.formats import text_files, text_lines
from electra_tf.data.sources import TextSource
from electra_tf.util.errors import UserError

NEWLINES = "\n", "\r\n", "\n\n", "\n \t\r\n", "\r\n\r\n", "\r", "\x0b", "\u2028"
WORDS = "word", "é字😀", " ", "\t", "x" * 50, "\u00a0", "\0", "#"
texts = st.lists(st.sampled_from(NEWLINES + WORDS), max_size=60).map("".join)
LIMITS = {"max_characters": 100, "must_have_text": False}


def test_files_come_sorted_within_a_pattern_and_each_once(tmp_path):
    for name in ("b.txt", "a.txt", "deep/c.txt", ".hidden", ".git/x"):
        write(tmp_path / name, "x")
    wanted = [str(tmp_path / "b.txt"), str(tmp_path / "*.txt"), str(tmp_path)]
    paths = [source.path for source in sources.expand(wanted)]
    found = [os.path.relpath(path, tmp_path) for path in paths]
    assert found == ["b.txt", "a.txt", os.path.join("deep", "c.txt")]


def test_globs_and_directories_stand_for_nothing_that_is_left_out(tmp_path):
    for name in ("a.txt", "v.txt", "out/b.txt", "out/c/d.txt", "outer/e.txt"):
        write(tmp_path / name, "x")
    (tmp_path / "link").symlink_to(tmp_path / "out" / "c")
    left_out = [str(tmp_path / "v.txt"), os.path.relpath(tmp_path / "out/")]

    def found(pattern):
        expanded = sources.expand([f"{tmp_path}/{pattern}"], leave_out=left_out)
        return [os.path.relpath(source.path, tmp_path) for source in expanded]

    assert found("") == found("**") == ["a.txt", "outer/e.txt"]
    assert found("*.txt") == ["a.txt"]
    assert found("v.txt") == ["v.txt"], "a file that is named is wanted"
    inside = ["out/b.txt", "out/c/d.txt"]
    assert found("out") == inside, "as is a directory that is named"
    assert found("out/*.txt") == inside[:1]
    assert found("out/c/*.txt") == inside[1:]
    with pytest.raises(UserError, match="matches no file"):
        found("v*.txt")


def test_a_file_with_several_names_is_read_once_with_a_warning(
    tmp_path, monkeypatch, capsys
):
    write(tmp_path / "a.txt", "one")
    write(tmp_path / "b.txt", "two")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    monkeypatch.chdir(tmp_path)
    documents, statistics = read("a.txt", tmp_path, "*.txt")
    assert documents == [["one"], ["two"]] and statistics.files == 2
    assert "5 file(s) or data set(s)" in capsys.readouterr().err


def test_the_size_of_compressed_text_is_estimated(tmp_path):
    write(tmp_path / "a.txt", "x" * 100)
    write(tmp_path / "b.gz", "x" * 100)
    found = sources.expand([str(tmp_path), "demo"])
    assert [source.num_text_bytes for source in found] == [100, 300, 0]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ([], "--corpus=demo"),
        (["nothing*"], r"corpus='.*nothing\*'"),
        ([""], "which matches no file"),
    ],
)
def test_a_corpus_without_files_is_an_error(tmp_path, patterns, message):
    with pytest.raises(UserError, match=message):
        sources.expand([str(tmp_path / pattern) for pattern in patterns])


def split(path, num_bytes, blanks=True):
    return sources.split_source(
        TextSource(str(path)), num_bytes, blanks_separate_docs=blanks
    )


@mock.patch.object(text_lines, "MAX_BAD_LINE_SHARE", 1)
def check(path, num_bytes, blanks):
    """Checks that ranges of a file hold its documents; returns the ranges."""
    ranges = split(path, num_bytes, blanks)
    options = {"blanks_separate_docs": blanks, "skip_bad_lines": True}
    options["limits"] = LIMITS
    documents, statistics = read(sources=[TextSource(str(path))], **options)
    apart = [read(sources=[part], **options) for part in ranges]
    assert [d for part, _ in apart for d in part] == documents
    together, statistics_together = read(sources=ranges, **options)
    assert together == documents
    statistics.empty_files = statistics_together.empty_files
    assert statistics_together == statistics
    return ranges


@settings(max_examples=300, deadline=None)
@given(
    texts.map(str.encode) | st.binary(max_size=300).map(b"#".__add__),
    st.integers(1, 600),
    st.booleans(),
)
def test_the_ranges_of_a_text_hold_its_documents(content, num_bytes, blanks):
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(content)
        file.flush()
        check(file.name, num_bytes, blanks)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(texts | st.none(), max_size=9),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
    st.integers(1, 2000),
)
def test_the_ranges_of_json_lines_hold_its_documents(
    texts, end, last, num_bytes
):
    rows = [json.dumps({"text": t}, ensure_ascii=False) for t in texts]
    content = end.join(rows) + end * last
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(content.encode())
        file.flush()
        check(file.name, num_bytes, blanks=False)


@pytest.mark.parametrize("blanks", [True, False])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_huge_lines_stay_whole(tmp_path, blanks, newline, last):
    huge = "word " * (text_lines.MAX_LINE_BYTES // 2)
    blank = " " * len(huge)
    lines = [huge, "", "small", "", huge, "", blank, huge]
    path = tmp_path / "a.txt"
    path.write_text(newline.join(lines) + last, newline="")
    ranges = check(path, text_lines.MAX_LINE_BYTES // 3, blanks)
    assert len(ranges) == (3 if blanks else 1)


def test_ranges_are_about_as_large_as_asked_for(tmp_path):
    path = write(tmp_path / "a.txt", "line of text\n\n" * 1000)
    ranges = split(path, 1000)
    sizes = [part.num_text_bytes for part in ranges]
    assert sum(sizes) == path.stat().st_size
    assert len(ranges) == 14
    assert max(sizes) < 1100


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt.gz", gzip.compress(b"a\n\n" * 100, mtime=0)),
        ("a.tar", tar([("a.txt", b"a\n\n" * 1000)])),
        ("gzipped.txt", gzip.compress(b"a\n\n" * 100, mtime=0)),
        ("parquet.txt", b"PAR1" * 50),
        ("one.txt", b"a line\n" * 1000),
        ("small.txt", b"a\n\nb\n"),
    ],
)
def test_sources_that_cannot_be_split_stay_whole(tmp_path, name, content):
    path = write(tmp_path / name, content)
    assert split(path, 10) == [TextSource(str(path))]
    for whole in TextSource("demo"), TextSource(str(path), split="train"):
        found = sources.split_source(whole, 9, blanks_separate_docs=True)
        assert found == [whole]


def test_a_bad_line_of_a_range_is_counted_from_the_files_start(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "x"}\n' * 9 + "bad\n")
    *_, last = split(path, 30)
    assert last.start > 0
    with pytest.raises(UserError, match=r"a\.jsonl, line 10: A row must"):
        read(sources=[last])


@pytest.mark.parametrize("name", ["a.json", "a"])
def test_json_lines_are_split_whatever_their_name(tmp_path, name):
    path = write(tmp_path / name, '{"text": "x"}\n' * 100)
    assert len(check(path, 500, blanks=False)) == 3


def test_a_range_of_a_text_file_that_begins_with_json_is_text(tmp_path):
    path = write(tmp_path / "a.txt", "text\n\n" + '{"text": "x"}\n\n' * 9)
    assert len(check(path, 60, blanks=True)) == 3


def test_ranges_are_read_in_blocks(tmp_path, monkeypatch):
    path = write(tmp_path / "a.txt", "line of text\n\n" * 10_000)
    *_, last = split(path, 100_000)
    sizes, readinto = [], text_files._Range.readinto

    def counting(file, buffer):
        sizes.append(len(buffer))
        return readinto(file, buffer)

    monkeypatch.setattr(text_files._Range, "readinto", counting)
    read(sources=[last])
    assert last.start > 0 and len(sizes) < 5


def test_a_pipe_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe, which is a pipe, a socket or"):
        sources.expand([str(tmp_path)])
