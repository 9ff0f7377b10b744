"""Corpora are read in full, in order, in constant memory, from any format."""

import gzip
import io
import itertools
import json
import os
import tarfile
import tempfile
import tracemalloc

import prepared_datasets
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from corpora import COMPRESS, read, tar, write
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus
from electra_tf.data.corpus import TextSource, expand
from electra_tf.util.errors import UserError

TEXTS = ["Grüße\naus\n\n\nWien\n", "字\r\n😀", "\n  last \n"]
DOCUMENTS = [["Grüße", "aus", "Wien"], ["字", "😀"], ["last"]]
MARK = b"\xef\xbb\xbf"


def json_text(texts, field="text"):
    rows = [json.dumps({"id": i, field: t}) for i, t in enumerate(texts)]
    return ("\n\n".join(rows) + "\n").encode()


def text_archive(texts=TEXTS):
    return tar((f"d/{i}.txt", text.encode()) for i, text in enumerate(texts))


def parquet(columns):
    buffer = io.BytesIO()
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, buffer, row_group_size=2)
    return buffer.getvalue()


def test_a_document_ends_at_a_blank_line_and_with_its_file(tmp_path):
    write(tmp_path / "a.txt", "one \r\n  two\n\n \t\n\nthree")
    write(tmp_path / "b.txt", "\nfour\n")
    documents, statistics = read(tmp_path)
    assert documents == [["one", "two"], ["three"], ["four"]]
    assert (statistics.files, statistics.documents, statistics.lines) == (
        *(2, 3),
        4,
    )
    assert statistics.text_bytes == sum(
        path.stat().st_size for path in tmp_path.iterdir()
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_newline_ends_a_line(tmp_path, end):
    lines = ["one", "two\u2028", "", "three"]
    path = write(tmp_path / "a.txt", end.join(lines).encode())
    assert read(path)[0] == [["one", "two"], ["three"]]


@pytest.mark.parametrize("blanks", [True, False])
@pytest.mark.parametrize("compressed", ["", *COMPRESS])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.tar", "a"])
def test_an_object_or_an_archived_file_is_a_document(
    tmp_path, name, compressed, blanks
):
    content = json_text(TEXTS, "body") if "json" in name else text_archive()
    path = write(tmp_path / f"{name}{compressed}", content, compressed)
    documents, statistics = read(
        path, blanks_separate_docs=blanks, text_field="body"
    )
    assert documents == DOCUMENTS
    assert statistics.text_bytes == sum(len(t.encode()) for t in TEXTS)


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_a_row_of_parquet_is_a_document(tmp_path, kind):
    texts = pyarrow.array(TEXTS, getattr(pyarrow, kind)())
    columns = {"id": [1, 2, 3], "body": texts}
    path = write(tmp_path / "a.parquet", parquet(columns))
    assert read(path, text_field="body")[0] == DOCUMENTS


def test_an_archive_may_hold_compressed_texts_and_json_lines(tmp_path):
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    members = [
        ("a.txt.gz", gzip.compress(MARK + b"one\n\ntwo")),
        ("d/b.jsonl", json_text(["three", "four"])),
        ("d/._b.jsonl", b"\0"),
        (link, b""),
    ]
    documents, statistics = read(write(tmp_path / "a.tgz", tar(members), ".gz"))
    assert documents == [["one", "two"], ["three"], ["four"]]
    assert statistics.skipped_members == 2


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz"])
def test_a_byte_order_mark_is_no_text(tmp_path, name):
    text = json_text(TEXTS) if "json" in name else b"Wien\n"
    plain, marked = (tmp_path / d / name for d in ("plain", "marked"))
    compressed = ".gz" if name.endswith(".gz") else ""
    for path, begin in ((plain, b""), (marked, MARK)):
        write(path, begin + text, compressed)
    assert read(plain) == read(marked)


def test_files_of_a_store_give_the_same_documents(tmp_path):
    names = {"a.txt": b"one\n\ntwo\n", "b.tar": text_archive()}
    names |= {
        "c.parquet": parquet({"text": TEXTS}),
        "d.jsonl": json_text(["x"]),
    }
    for ending, compress in COMPRESS.items():
        names[f"e.txt{ending}"] = compress(b"text")
    store = f"ram://{tmp_path}"
    for name, content in {**names, ".hidden": b"x"}.items():
        write(tmp_path / name, content)
        with tf.io.gfile.GFile(f"{store}/{name}", "wb") as file:
            file.write(content)
    here = read(tmp_path)
    assert read(store) == read(f"{store}/[a-z]*") == here


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.txt", b"one\ntw\xe9\n", "line 2"),
        ("a.txt.gz", gzip.compress(b"one\n\n\xff"), "line 3"),
        ("a.txt", "a\nb\n".encode("utf-16-le"), "line 1"),
        ("a.tar", tar([("b.txt", b"a\n\xff")]), "b.txt, line 2"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": 1}\n', "line 3"),
        ("a.json", b'[{"text": "a"}]', "line 1"),
        ("a.jsonl", b'{"text": "\xe9"}', "line 1"),
        ("a.parquet", parquet({"text": ["x", None]}), "row 2"),
    ],
)
def test_bad_content_is_named_or_skipped_and_counted(
    tmp_path, name, content, place
):
    path = write(tmp_path / name, content)
    with pytest.raises(UserError, match=rf"{name}, {place}:"):
        read(path)
    limits = {"must_have_text": False}
    _, statistics = read(path, skip_bad_lines=True, limits=limits)
    assert statistics.bad_lines > 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(
            (f"a.txt{ending}", compress(os.urandom(3000).hex().encode())[:-9])
            for ending, compress in COMPRESS.items()
        ),
        ("a.gz", b"plain text"),
        ("a.tar", text_archive(["x" * 10**4])[:8000]),
        ("a.parquet", parquet({"text": TEXTS})[:-20]),
        ("a.parquet", parquet({"body": TEXTS})),
        ("a.txt", b"\n \n\t\n"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path, name, content):
    path = write(tmp_path / name, content)
    with pytest.raises(UserError):
        read(path)


def test_a_long_line_is_cut_at_white_space(tmp_path):
    line = " ".join(f"word{i}" for i in range(30000))
    documents, statistics = read(write(tmp_path / "a.txt", line + "\nend\n"))
    *pieces, last = itertools.chain(*documents)
    assert last == "end"
    assert " ".join(pieces) == line
    assert statistics.cut_lines == len(pieces) - 1 > 0


def test_a_long_word_is_cut_between_characters(tmp_path):
    word = "x" + "é字" * 50000  # a cut lies inside one
    documents, _ = read(write(tmp_path / "a.txt", f"first\n\t{word}\n"))
    assert ["".join(lines) for lines in documents] == ["first" + word]


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
    path = write(tmp_path / "a.txt", "12345\n12345\n1\n\n12345678901\n\n12\n")
    documents, _ = read(path, limits={"max_characters": 10})
    assert documents == [["12345", "12345"], ["1"], ["12345678901"], ["12"]]


def test_memory_does_not_grow_with_a_line(tmp_path):
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(32):
            file.write(b"word " * 2**18)
    statistics = corpus.Statistics()
    tracemalloc.start()
    for _ in corpus.read_documents(
        expand([str(path)]), CorpusConfig(), statistics=statistics
    ):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert statistics.text_bytes == 32 * 5 * 2**18 > 5 * peak


def test_files_come_sorted_within_a_pattern_and_each_once(tmp_path):
    for name in ("b.txt", "a.txt", "deep/c.txt", ".hidden", ".git/x"):
        write(tmp_path / name, "x")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    wanted = [str(tmp_path / "b.txt"), str(tmp_path / "*.txt"), str(tmp_path)]
    paths = [os.path.relpath(x.path, tmp_path) for x in expand(wanted)]
    assert paths == ["b.txt", "a.txt", os.path.join("deep", "c.txt")]


def test_globs_and_directories_stand_for_nothing_that_is_left_out(tmp_path):
    for name in ("a.txt", "v.txt", "out/b.txt", "out/c/d.txt", "outer/e.txt"):
        write(tmp_path / name, "x")
    (tmp_path / "link").symlink_to(tmp_path / "out" / "c")
    left_out = [str(tmp_path / "v.txt"), os.path.relpath(tmp_path / "out/")]

    def found(pattern):
        expanded = expand([f"{tmp_path}/{pattern}"], leave_out=left_out)
        return [os.path.relpath(source.path, tmp_path) for source in expanded]

    assert found("") == found("**") == ["a.txt", "outer/e.txt"]
    assert found("*.txt") == ["a.txt"]
    assert found("v.txt") == ["v.txt"], "a file that is named is wanted"
    inside = ["out/b.txt", "out/c/d.txt"]
    assert found("out") == inside, "as is a directory that is named"
    assert found("out/*.txt") == inside[:1]
    assert found("out/c/*.txt") == inside[1:]


@pytest.mark.parametrize("patterns", [[], ["nothing*"], [""], ["tfds:none"]])
def test_a_corpus_without_files_is_an_error(tmp_path, patterns):
    with pytest.raises(ValueError):
        expand(patterns, tfds_data_dir=str(tmp_path))


def test_the_size_of_compressed_text_is_estimated(tmp_path):
    for name in ("a.txt", "b.gz", "c.txz"):
        write(tmp_path / name, "x" * 100)
    sizes = [x.num_text_bytes for x in expand([str(tmp_path), "demo"])]
    assert sizes == [100, 300, 400, 0]


def split(path, num_bytes, blanks=True):
    return corpus.split_source(
        TextSource(str(path)), num_bytes, blanks_separate_docs=blanks
    )


def check_ranges(path, num_bytes, blanks):
    """Checks that ranges of a file hold its documents; returns the ranges."""
    ranges = split(path, num_bytes, blanks)
    options = {"blanks_separate_docs": blanks, "skip_bad_lines": True}
    options["limits"] = {"max_characters": 100, "must_have_text": False}
    documents, statistics = read(sources=[TextSource(str(path))], **options)
    apart = [read(sources=[part], **options) for part in ranges]
    assert [d for part, _ in apart for d in part] == documents
    together, statistics_together = read(sources=ranges, **options)
    assert together == documents
    assert statistics_together == statistics
    return ranges


NEWLINES = "\n", "\r\n", "\n\n", "\n \t\r\n", "\r\n\r\n", "\r", "\x0b", "\u2028"
WORDS = "word", "é字😀", " ", "\t", "x" * 50, "\u00a0", "\0", "#"
texts = st.lists(st.sampled_from(NEWLINES + WORDS), max_size=60).map("".join)


@settings(max_examples=200, deadline=None)
@given(
    texts.map(str.encode) | st.binary(max_size=300).map(b"#".__add__),
    st.integers(1, 600),
    st.booleans(),
)
def test_the_ranges_of_a_text_hold_its_documents(content, num_bytes, blanks):
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(content)
        file.flush()
        check_ranges(file.name, num_bytes, blanks)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(texts | st.none(), max_size=9),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.integers(1, 2000),
)
def test_the_ranges_of_json_lines_hold_its_documents(texts, end, num_bytes):
    rows = [json.dumps({"text": t}, ensure_ascii=False) for t in texts]
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(end.join(rows).encode())
        file.flush()
        check_ranges(file.name, num_bytes, blanks=False)


@pytest.mark.parametrize("blanks", [True, False])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_huge_lines_stay_whole(tmp_path, blanks, newline):
    huge = "word " * (corpus.MAX_LINE_BYTES // 2)
    blank = " " * len(huge)
    lines = [huge, "", "small", "", huge, "", blank, huge]
    path = tmp_path / "a.txt"
    path.write_text(newline.join(lines), newline="")
    ranges = check_ranges(path, corpus.MAX_LINE_BYTES // 3, blanks)
    assert len(ranges) == (3 if blanks else 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt.gz", gzip.compress(b"a\n\n" * 100, mtime=0)),
        ("a.tar", tar([("a.txt", b"a\n\n" * 1000)])),
        ("a.parquet", b"PAR1" * 50),
        ("one.txt", b"a line\n" * 1000),
        ("small.txt", b"a\n\nb\n"),
    ],
)
def test_sources_that_cannot_be_split_stay_whole(tmp_path, name, content):
    path = write(tmp_path / name, content)
    assert split(path, 10) == [TextSource(str(path))]
    for whole in TextSource("demo"), TextSource(str(path), split="train"):
        found = corpus.split_source(whole, 9, blanks_separate_docs=True)
        assert found == [whole]


def test_a_bad_line_of_a_range_is_counted_from_the_files_start(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "x"}\n' * 9 + "bad\n")
    *_, last = split(path, 30)
    assert last.start > 0
    with pytest.raises(UserError, match=r"a\.jsonl, line 10:"):
        read(sources=[last])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds")
    texts = {
        "train": [f"title {i}\n\nline {i} ☃\n" for i in range(9)],
        "test": ["other"],
    }
    for version in ("1.0.0", "1.10.0", "1.9.0"):
        prepared_datasets.store(
            directory,
            f"books/plain/{version}",
            {"text": tfds.features.Text()},
            {split: {"text": values} for split, values in texts.items()},
        )
    return str(directory)


@pytest.mark.parametrize(
    ("name", "version", "documents"),
    [
        ("plain", "1.10.0", [[f"title {i}", f"line {i} ☃"] for i in range(9)]),
        ("plain/1.9.0:test", "1.9.0", [["other"]]),
        ("plain:train[:1]", "1.10.0", [["title 0", "line 0 ☃"]]),
    ],
)
def test_an_example_of_a_data_set_is_a_document(
    data_dir, name, version, documents
):
    sources = expand([f"tfds:books/{name}"], tfds_data_dir=data_dir)
    assert sources[0].path.endswith(version)
    assert read(sources=sources)[0] == documents


def test_a_data_set_that_is_not_there_is_an_error(data_dir):
    for name in ("wiki40b/en", "books/plain:dev", "../books", ""):
        with pytest.raises(ValueError):
            expand([f"tfds:{name}"], tfds_data_dir=data_dir)
