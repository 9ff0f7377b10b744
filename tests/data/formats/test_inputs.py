"""Inputs for prediction are read from files like the training files."""

import dataclasses
import gzip
import io
import os
import sys

import pytest
from corpora import write

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data.formats import conll, inputs, tables
from electra_tf.data.formats.inputs import InputSpec
from electra_tf.data.formats.rows import BadRowError
from electra_tf.util.errors import UserError

TEXT = InputSpec(("text",))
PAIR = InputSpec(("question", "context"))
WORDS = InputSpec(("words",), takes_words=True)
WORD_FILES = {
    ".conll": conll.Columns(),
    ".tsv": conll.Columns(1, separator="\t"),
    ".conllu": conll.CONLLU,
}
TAGGER = WORDS._replace(word_files=WORD_FILES)
CUSTOM = ColumnsConfig(
    task_kind="classification",
    text_column="review",
    text_b_column="reply",
    delimiter=";",
    quoting="true",
)
CUSTOM_PAIR = InputSpec(("review", "reply"), columns=CUSTOM)
NUMBERED = dataclasses.replace(
    CUSTOM,
    has_header=False,
    text_column="3",
    text_b_column="1",
    label_column="2",
)


def _read(path, spec, file_format="auto"):
    source = inputs.of_file(str(path), file_format, spec)
    return [(number, source.parse(row)) for number, row in source.rows]


OBJECTS = b"""{"context": "c", "id": 7, "question": "q"}

{"question": "a\\tb", "context": "d"}"""


@pytest.mark.parametrize(
    ("name", "content", "spec", "expected"),
    [
        (
            "a.txt",
            "\ufeffa film\r\n\n\ttab\u2028sep\n[SEP] ü".encode(),
            TEXT,
            {1: ("a film",), 2: ("",), 3: ("\ttab\u2028sep",), 4: ("[SEP] ü",)},
        ),
        *[
            (
                f"a.tsv{ending}",
                b"who?\the\nwhat?\t\n",
                PAIR,
                {1: ("who?", "he"), 2: ("what?", "")},
            )
            for ending in ("", ".gz", ".BZ2")
        ],
        (
            "a.csv",
            b'context,id,question\nc,7,"a\nb"\n\nd,8,q\n',
            PAIR,
            {2: ("a\nb", "c"), 5: ("q", "d")},
        ),
        ("a.jsonl", OBJECTS, PAIR, {1: ("q", "c"), 3: ("a\tb", "d")}),
        ("a.jsonl", b'{"r": {"b": "x"}}', InputSpec(("r.b",)), {1: ("x",)}),
        (
            "a.jsonl",
            b'{"words": ["a", "b c"]}\n{"words": "a b"}',
            WORDS,
            {1: (["a", "b c"],), 2: ("a b",)},
        ),
        ("a.txt", b"In O\nYork B\n", TAGGER, {1: ("In O",), 2: ("York B",)}),
        *[
            (name, content, TAGGER, {3: (("In", "York"),), 7: (("x",),)})
            for name, content in (
                ("a.conll", b"-DOCSTART- O\n\nIn O\nYork B\n\n\nx O"),
                ("a.tsv", b"\n\n1\tIn\n2\tYork\n\n\n1\tx"),
                ("a.conllu.gz", b"# a\n\n1\tIn\n2\tYork\n\n# b\n1\tx\tx\n"),
            )
        ],
        (
            "a.tsv",
            b'reply;stars;review\n"a;b";5;c\n"d\n";"1\n2";e\n',
            CUSTOM_PAIR,
            {2: ("c", "a;b"), 3: ("e", "d\n")},
        ),
        (
            "a.csv",
            b"reply;stars;review\na;5;b\n",
            InputSpec(("3", "1"), columns=NUMBERED),
            {1: ("review", "reply"), 2: ("b", "a")},
        ),
        (
            "a.ndjson.zst",
            b'{"review": "a", "reply": "b"}\n',
            CUSTOM_PAIR,
            {1: ("a", "b")},
        ),
    ],
)
def test_a_file_is_read_by_its_ending_and_the_model(
    name, content, spec, expected, tmp_path
):
    compressed = os.path.splitext(name)[1].lower()
    path = write(tmp_path / name, content, compressed)
    assert dict(_read(path, spec)) == expected


@pytest.mark.parametrize(
    ("row", "spec", "file_format", "problem"),
    [
        (b"a\tb", TEXT, "tsv", "columns 'text',.*Received: 2"),
        (b"a", PAIR, "txt", "'question', 'context'.*Received: 1"),
        (b"\xff", TEXT, "txt", "UTF-8"),
        (b"id,text\na", TEXT, "csv", "2 columns. Received: 1"),
        (b"id,text\na,\xff", TEXT, "csv", "UTF-8"),
        (b"{", TEXT, "jsonl", "JSON. Received"),
        (b'{"text": ["a"]}', TEXT, "jsonl", "'text' must be a text"),
        (b'{"words": [1]}', WORDS, "jsonl", "text or a list of words"),
        (b"1\tIn\n2\n\n1\tx\n", TAGGER, "tsv", "word in column 2"),
        (b'{"review": "", "reply": "b"}', CUSTOM_PAIR, "jsonl", "not empty"),
        (b"reply;review\na;\n", CUSTOM_PAIR, "tsv", "'review' must be a text"),
    ],
)
def test_a_bad_row_says_what_it_must_be(
    row, spec, file_format, problem, tmp_path
):
    with pytest.raises(BadRowError, match=problem):
        _read(write(tmp_path / "a", row), spec, file_format)


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("who", "'question', 'context'.*'who'"),
        (("a",), "1 values"),
        (("a", 3), "'context' must be a text. Received: 3"),
        (("a", "\ud800"), "'context' must be a text. Received: '.ud800'"),
        (5, "Received: 5"),
    ],
)
def test_an_item_that_is_no_pair_is_refused(item, problem):
    with pytest.raises(BadRowError, match=problem):
        inputs.inputs_of(item, PAIR)


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(UserError, match="none.jsonl"):
        _read(tmp_path / "none.jsonl", TEXT)
    for name, content, problem in (
        ("a.doc", b"a", r"\.jsonl.*a\.doc.*--input_format"),
        ("a.csv", b'text\nb\n"a', r"a\.csv, line 3: A quoted field"),
        ("b.csv", b"txt\nb", r"b\.csv, line 1: `text`.*--input_format=txt"),
        ("c.csv", b"text,a,text\n", r"'text' more than once\. Name the col"),
        ("d.csv", b"\n\n", r"d\.csv must hold rows"),
        ("a.conll", b"a O", r"a\.conll as conll"),
        ("a.txt", b"", "nothing in .*a.txt"),
        ("b.txt", "a".encode("utf-16"), "b.txt must be .*: UTF-16 text. Conv"),
        (
            "a.txt.gz",
            gzip.compress(b"x" * 999)[:-9],
            r"a\.txt\.gz must be a file",
        ),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=problem):
            _read(tmp_path / name, TEXT)
    assert _read(tmp_path / "a.doc", TEXT, "txt") == [(1, ("a",))]


def test_standard_input_has_a_header_only_if_format_or_names_say_so(
    monkeypatch,
):
    def read(spec, file_format="auto"):
        file = io.BytesIO(b"review\treply\na\tb\n")
        monkeypatch.setattr(io, "FileIO", lambda *args, **kwargs: file)
        return _read("", spec, file_format)

    rows = [(1, ("review", "reply")), (2, ("a", "b"))]
    columns = dataclasses.replace(CUSTOM, delimiter="", quoting="auto")
    custom = CUSTOM_PAIR._replace(columns=columns)
    assert read(custom) == read(PAIR) == rows
    assert read(custom, "tsv") == rows[1:]
    assert read(PAIR._replace(names=custom.names)) == rows[1:]


def test_a_byte_order_mark_of_standard_input_is_no_text(monkeypatch):
    file = io.BytesIO(b"\xef\xbb\xbfa\nb\n")
    monkeypatch.setattr(io, "FileIO", lambda *args, **kwargs: file)
    assert _read("", TEXT) == [(1, ("a",)), (2, ("b",))]


def test_a_closed_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="closed standard input. Set --input"):
        _read("", TEXT)


def test_the_command_line_must_give_one_text_per_input():
    source = inputs.of_texts(["q", "c"], PAIR)
    assert [source.parse(row) for _, row in source.rows] == [("q", "c")]
    with pytest.raises(UserError, match="--text and --text_b"):
        inputs.of_texts(["q"], PAIR)
    with pytest.raises(UserError, match="'text'.*2 of them.*--text alone"):
        inputs.of_texts(["q", "c"], TEXT)


def test_a_table_without_header_has_the_columns_of_the_task_or_the_model(
    tmp_path,
):
    layout = tables.Layout({"text": 2}, num_columns=3)
    spec = TEXT._replace(bare_layout=layout)
    path = write(tmp_path / "task.tsv", b"x\t1\ta film\n")
    assert _read(path, spec) == [(1, ("a film",))]
    path = write(tmp_path / "model.tsv", b"a film\n")
    assert _read(path, spec) == [(1, ("a film",))]
