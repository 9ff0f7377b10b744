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
from corpora import COMPRESS, tar, write
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_datasets.core import constants

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, demo_corpus
from electra_tf.data.corpus import TextSource, expand
from electra_tf.util.errors import UserError

TEXTS = ["Grüße\naus\n\n\nWien\n", "字\r\n😀", "\n  last \n"]
DOCUMENTS = [["Grüße", "aus", "Wien"], ["字", "😀"], ["last"]]
MARK = b"\xef\xbb\xbf"


def read(sources, **options):
    """Reads sources, or those of a path; returns documents and counts."""
    if not isinstance(sources, list):
        sources = expand([str(sources)])
    counts = corpus.Counts()
    config = CorpusConfig(**options)
    return list(corpus.read_documents(sources, config, counts)), counts


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


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_document_ends_at_a_blank_line_and_with_its_file(tmp_path, end):
    lines = ["\ufeffone ", "  two\u2028", "", " \t", "", "three"]
    write(tmp_path / "a.txt", end.join(lines).encode())
    write(tmp_path / "b.txt", "\nfour\n")
    documents, counts = read(tmp_path)
    assert documents == [["one", "two"], ["three"], ["four"]]
    assert [counts[x] for x in ("files", "documents", "lines")] == [2, 3, 4]


@pytest.mark.parametrize("blanks", [True, False])
@pytest.mark.parametrize("compressed", ["", *COMPRESS])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.tar", "a"])
def test_an_object_or_an_archived_file_is_a_document(
    tmp_path, name, compressed, blanks
):
    content = json_text(TEXTS, "body") if "json" in name else text_archive()
    content = MARK * ("json" in name) + content
    path = write(tmp_path / f"{name}{compressed}", content, compressed)
    documents, _ = read(path, blanks_separate_docs=blanks, text_field="body")
    assert documents == DOCUMENTS


def test_a_row_of_parquet_is_a_document(tmp_path):
    texts = pyarrow.array(TEXTS, pyarrow.large_string())
    path = write(tmp_path / "a.parquet", parquet({"id": [1, 2, 3], "b": texts}))
    assert read(path, text_field="b")[0] == DOCUMENTS


def test_an_archive_may_hold_compressed_texts_and_json_lines(tmp_path):
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    members = [
        ("a.txt.gz", gzip.compress(MARK + b"one\n\ntwo")),
        ("d/b.jsonl", json_text(["three", "four"])),
        ("d/._b.jsonl", b"\0"),
        (link, b""),
    ]
    documents, _ = read(write(tmp_path / "a.tgz", tar(members), ".gz"))
    assert documents == [["one", "two"], ["three"], ["four"]]


def test_files_of_a_store_give_the_same_documents(tmp_path):
    names = {"a.txt": b"one\n\ntwo\n", "b.tar": text_archive()}
    names |= {"c.parquet": parquet({"text": TEXTS}), ".hidden": b"x"}
    for ending, compress in COMPRESS.items():
        names[f"e.txt{ending}"] = compress(b"text")
    store = f"ram://{tmp_path}"
    for name, content in names.items():
        write(tmp_path / name, content)
        with tf.io.gfile.GFile(f"{store}/{name}", "wb") as file:
            file.write(content)
    here = read(tmp_path)
    assert read(store) == read(f"{store}/[a-z]*") == here


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.txt", b"one\ntw\xe9\n", ", line 2:"),
        ("a.txt.gz", gzip.compress(b"one\n\n\xff", mtime=0), ", line 3:"),
        ("a.txt", "a\nb\n".encode("utf-16-le"), ", line 1:"),
        ("a.tar", tar([("b.txt", b"a\n\xff")]), ", b.txt, line 2:"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": 1}\n', ", line 3:"),
        ("a.json", b'[{"text": "a"}]', ", line 1:"),
        ("a.jsonl", b'{"text": "\xe9"}', ", line 1:"),
        ("a.parquet", parquet({"text": ["x", None]}), ", row 2:"),
        ("a.parquet", parquet({"body": TEXTS}), ", row 1:"),
        *(
            (f"a{x}", compress(os.urandom(3000).hex().encode())[:-9], "")
            for x, compress in COMPRESS.items()
        ),
        ("a.gz", b"plain text", ""),
        ("a.tar", text_archive(["x" * 10**4])[:8000], ""),
        ("a.parquet", parquet({"text": TEXTS})[:-20], ""),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_place(
    tmp_path, name, content, place
):
    path = write(tmp_path / name, content)
    with pytest.raises(UserError, match=name + place):
        read(path)


@pytest.mark.parametrize(("word", "between"), [("word ", " "), ("é字", "")])
def test_a_long_line_is_cut_after_white_space_or_anywhere(
    tmp_path, word, between
):
    line = word * 50_000
    documents, counts = read(write(tmp_path / "a.txt", f"{line}\nend\n"))
    *pieces, last = itertools.chain(*documents)
    assert last == "end"
    assert between.join(pieces) == line.strip()
    assert counts["cut_lines"] == len(pieces) - 1 > 0


def test_white_space_where_a_long_line_is_cut_ends_no_document(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(corpus, "MAX_LINE_CHARACTERS", 8)
    text = "w w w" + " " * 20 + "\n x" + " " * 9 + "y\n" + " " * 20 + "z\n"
    (document,), counts = read(write(tmp_path / "a.txt", text))
    assert counts["text_bytes"] == len(text)
    assert " ".join(document).split() == "w w w x y z".split()


def test_a_long_document_is_cut_between_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_DOCUMENT_CHARACTERS", 10)
    path = write(tmp_path / "a.txt", "12345\n12345\n1\n\n12345678901\n\n12\n")
    documents, counts = read(path)
    assert documents == [["12345", "12345"], ["1"], ["12345678901"], ["12"]]
    assert counts["cut_documents"] == 1


def test_memory_does_not_grow_with_a_line(tmp_path):
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(32):
            file.write(b"word " * 2**18)
    counts = corpus.Counts()
    tracemalloc.start()
    for _ in corpus.read_documents(expand([str(path)]), CorpusConfig(), counts):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts["text_bytes"] == 32 * 5 * 2**18 > 5 * peak


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
    assert found("out/*.txt") == ["out/b.txt"], "as is a directory"


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "DATA_DIR", str(directory))
        yield


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
    sources = expand([f"tfds:books/{name}"])
    assert sources[0].path.endswith(version)
    assert read(sources)[0] == documents


def split(path, num_bytes, blanks=True):
    config = CorpusConfig(blanks_separate_docs=blanks)
    return corpus.split_source(TextSource(str(path)), num_bytes, config)


NEWLINES = "\n", "\r\n", "\n\n", "\n \t\r\n", "\r\n\r\n", "\r", "\x0b", "\u2028"
WORDS = "word", "é字😀", " ", "\t", "x" * 50, "\u00a0", "#"
texts = st.lists(st.sampled_from(NEWLINES + WORDS), max_size=60).map("".join)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(texts, max_size=9),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.integers(1, 1000),
    st.booleans(),
    st.booleans(),
)
def test_the_ranges_of_a_file_hold_its_documents(
    texts, end, num_bytes, blanks, is_json
):
    if is_json:
        texts = [json.dumps({"text": x}, ensure_ascii=False) for x in texts]
    suffix = ".jsonl" if is_json else ".txt"
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(end.join(texts).encode())
        file.flush()
        ranges = split(file.name, num_bytes, blanks)
        whole = read([TextSource(file.name)], blanks_separate_docs=blanks)
        apart = [read([x], blanks_separate_docs=blanks)[0] for x in ranges]
        assert [*itertools.chain(*apart)] == whole[0]
        assert read(ranges, blanks_separate_docs=blanks) == whole


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


def test_a_bad_line_of_a_range_is_counted_from_the_files_start(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "x"}\n' * 9 + "bad\n")
    *_, last = split(path, 30)
    assert last.start > 0
    with pytest.raises(UserError, match=r"a\.jsonl, line 10:"):
        read([last])


MODULE = '''"""Reads a file of the kind that the server writes.

The first line is the header, which says how many
lines there are: it is not counted.

    >>> read("a file which holds some words in it")
    this is what the program would print then.

```python
this_is_the_code = of_the_example_and_nothing_else
```
The text goes on after the code of the example.
"""

NOT_PROSE = """This string stands in an assignment, it documents nothing.
"""


def read(path, strict=True):
    r"""Returns the lines of a file, without the header."""
    # A comment is not read, although it is written in English.
    return path  # """ nor does this begin a string of any kind at all """
'''


def test_paragraphs_become_lines_once(monkeypatch, tmp_path):
    line = "This is only in the second of the two modules."
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    paths[0].write_text(MODULE)
    paths[1].write_text(f'"""{line}"""\n{MODULE}')
    monkeypatch.setattr(demo_corpus, "_sources", lambda: paths)
    monkeypatch.setattr(demo_corpus, "MIN_DOCUMENT_CHARACTERS", 1)
    assert demo_corpus.documents.__wrapped__() == [
        [
            "Reads a file of the kind that the server writes.",
            "The first line is the header, which says how many lines there "
            "are: it is not counted.",
            "The text goes on after the code of the example.",
            "Returns the lines of a file, without the header.",
        ],
        [line],
    ]
