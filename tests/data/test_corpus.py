"""Corpora are read in full, in order, in constant memory; damage is counted."""

import gzip
import itertools
import tempfile
import tracemalloc

import pytest
from corpora import read, write
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus
from electra_tf.data.sources import expand
from electra_tf.util.errors import UserError


def test_a_document_ends_at_a_blank_line_and_with_its_file(tmp_path):
    write(tmp_path / "a.txt", "one \r\n  two\n\n \t\n\nthree")
    write(tmp_path / "b.txt", "\nfour\n")
    documents, statistics = read(tmp_path)
    assert documents == [["one", "two"], ["three"], ["four"]]
    assert statistics.files == 2
    assert statistics.documents == 3
    assert statistics.lines == 4
    assert statistics.text_bytes == sum(
        path.stat().st_size for path in tmp_path.iterdir()
    )


def test_blank_lines_are_left_out_where_they_separate_nothing(tmp_path):
    path = write(tmp_path / "a.txt", "one\n\ntwo\n")
    documents, _ = read(path, blanks_separate_docs=False)
    assert documents == [["one", "two"]]


@pytest.mark.parametrize("content", ["", "\n \n\t\n", b"\0\1\2\n" * 9])
def test_a_corpus_without_text_is_an_error(tmp_path, content):
    with pytest.raises(UserError, match="text in UTF-8"):
        read(write(tmp_path / "a.txt", content))


def test_a_file_without_text_is_counted(tmp_path):
    write(tmp_path / "a.txt", "")
    write(tmp_path / "b.txt", "x")
    assert read(tmp_path)[1].empty_files == 1


def test_a_long_line_is_cut_at_white_space(tmp_path):
    line = " ".join(f"word{i}" for i in range(30000))
    documents, statistics = read(write(tmp_path / "a.txt", line + "\nend\n"))
    *pieces, last = itertools.chain(*documents)
    assert last == "end"
    assert " ".join(pieces) == line
    assert statistics.cut_lines == len(pieces) - 1 > 0


@pytest.mark.parametrize("indentation", ["", "\t", " \t "])
def test_a_long_word_is_cut_between_characters(tmp_path, indentation):
    word = "x" + "é字" * 50000  # a cut lies inside one
    text = f"first\n{indentation}{word}\n"
    documents, statistics = read(write(tmp_path / "a.txt", text))
    assert ["".join(lines) for lines in documents] == ["first" + word]
    assert statistics.replaced_bytes == 0


@pytest.mark.parametrize("num_words", [32000, 0, 32768])
def test_white_space_where_a_long_line_is_cut_ends_no_document(
    tmp_path, num_words
):
    line = "w " * num_words + " " * 70_000
    path = write(tmp_path / "a.txt", f"{line}\nx {line}y\n{line}z\n")
    (document,), statistics = read(path, limits={"max_characters": 10**6})
    assert statistics.text_bytes == path.stat().st_size
    words = ["w"] * num_words
    expected = [*words, "x", *words, "y", *words, "z"]
    assert " ".join(document).split() == expected


def test_a_long_document_is_cut_between_lines(tmp_path):
    long = "x" * 20
    path = write(tmp_path / "a.txt", f"12345\n12345\n1\n\n{long}\n\n12\n")
    documents, statistics = read(path, limits={"max_characters": 10})
    assert documents == [["12345", "12345"], ["1"], [long], ["12"]]
    assert statistics.cut_documents == 1


def test_invalid_bytes_are_replaced_and_counted(tmp_path):
    text = b"a caf\xe9 with \xed\xa0\x80 in it, and plenty of good text too\n"
    path = write(tmp_path / "a.txt", text + b"good\n" * 4)
    documents, statistics = read(path)
    assert documents[0][0].startswith("a caf\ufffd with")
    assert statistics.replaced_bytes == 4


def test_binary_lines_are_left_out_and_counted(tmp_path):
    lines = [*[b"good"] * 7, b"a\0b", bytes(range(128, 256)), b"good too"]
    documents, statistics = read(write(tmp_path / "a.txt", b"\n".join(lines)))
    assert documents == [[*["good"] * 7, "good too"]]
    assert statistics.binary_lines == 2
    assert statistics.replaced_bytes == 0


@settings(max_examples=50, deadline=None)
@given(st.binary())
def test_no_bytes_break_the_reader(content):
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(b"text\n" * 1000 + content)
        file.flush()
        documents, statistics = read(file.name)
    assert statistics.lines == sum(map(len, documents))
    assert all(line == line.strip() != "" for d in documents for line in d)


def test_memory_does_not_grow_with_a_line(tmp_path):
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(32):
            file.write(b"word " * 2**18)
    statistics = corpus.Statistics()
    documents = corpus.read_documents(
        expand([str(path)]), CorpusConfig(), statistics=statistics
    )
    tracemalloc.start()
    for _ in documents:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert statistics.text_bytes == 32 * 5 * 2**18  # 40 MiB
    assert peak < 8 * 2**20


def test_demo_documents_are_counted():
    statistics = corpus.Statistics()
    documents = corpus.read_documents(
        expand(["demo"]), CorpusConfig(), statistics=statistics
    )
    document = next(documents)
    assert statistics.documents == 1
    assert statistics.lines == len(document) > 0
    assert statistics.text_bytes > 0
