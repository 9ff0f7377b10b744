"""Inputs are read like training files; answers are written in their order."""

import dataclasses
import io
import os
import sys

import pytest
from corpora import write

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import answering, tables
from electra_tf.data.answering import InputSource, InputSpec
from electra_tf.data.tables import BadRowError, BadRows
from electra_tf.util.errors import UserError

TEXT = InputSpec(("text",))
PAIR = InputSpec(("question", "context"))
WORDS = InputSpec(("words",), takes_words=True)
TAGGER = WORDS._replace(
    word_files={
        ".conll": tables.WordColumns(),
        ".tsv": tables.WordColumns(1),
        ".conllu": tables.CONLLU,
    }
)
CUSTOM = ColumnsConfig(
    task_kind="classification",
    text_column="review",
    text_b_column="reply",
    delimiter=";",
)
CUSTOM_PAIR = InputSpec(("review", "reply"), columns=CUSTOM)
GLUE = PAIR._replace(file_names=("q", "c"))
BARE = TEXT._replace(bare_layout=tables.Layout({"text": 2}, num_columns=3))


def _read(path, spec, file_format="auto"):
    return list(answering.of_file(str(path), file_format, spec).rows)


CONLL = {
    "a.conll": b"-DOCSTART- O\n\nIn O\nYork B\n\n\nx O",
    "a.tsv": b"\n\n1\tIn\n2\tYork\n\n\n1\tx",
    "a.conllu.gz": b"# a\n\n1\tIn\n2\tYork\n\n# b\n1\tx\tx\n",
}
PAIRS = {1: ("who?", "he"), 2: ("what?", "")}


@pytest.mark.parametrize(
    ("name", "content", "spec", "expected"),
    [
        (
            "a.txt",
            "\ufeffa film\r\n\n\ttab\u2028sep".encode(),
            TEXT,
            {1: ("a film",), 2: ("",), 3: ("\ttab\u2028sep",)},
        ),
        ("a.tsv.BZ2", b"who?\the\nwhat?\t\n", PAIR, PAIRS),
        ("a.tsv", b"c\tq\nx\ty\n", GLUE, {2: ("y", "x")}),
        ("a.tsv", b"question\tcontext\nx\ty\n", GLUE, {2: ("x", "y")}),
        ("a.tsv", b"x\t1\ta film\n", BARE, {1: ("a film",)}),
        ("a.tsv", b"a film\n", BARE, {1: ("a film",)}),
        ("a.csv", b"context,question\nc,q\n", PAIR, {2: ("q", "c")}),
        ("a.jsonl", b'{"r": {"b": "x"}}', InputSpec(("r.b",)), {1: ("x",)}),
        ("a.jsonl", b'{"words": ["a", "b c"]}', WORDS, {1: (["a", "b c"],)}),
        ("a.txt", b"In O\nYork B\n", TAGGER, {1: ("In O",), 2: ("York B",)}),
        *(
            (name, content, TAGGER, {3: (("In", "York"),), 7: (("x",),)})
            for name, content in CONLL.items()
        ),
        ("a.tsv", b'reply;review\n"a";c\n', CUSTOM_PAIR, {2: ("c", '"a"')}),
    ],
)
def test_a_file_is_read_by_its_ending_and_the_model(
    name, content, spec, expected, tmp_path
):
    compressed = os.path.splitext(name)[1].lower()
    path = write(tmp_path / name, content, compressed)
    assert dict(_read(path, spec)) == expected


@pytest.mark.parametrize(
    ("rows", "spec", "file_format"),
    [
        (b"\na\tb", TEXT, "tsv"),
        (b"a\tb\na", PAIR, "txt"),
        (b'\n{"text": ["a"]}', TEXT, "jsonl"),
        (b'\n{"words": [1]}', WORDS, "jsonl"),
        (b"1\tIn\n2\n\n1\tx\n", TAGGER, "tsv"),
        (b'\n{"review": "", "reply": "b"}', CUSTOM_PAIR, "jsonl"),
    ],
)
def test_a_bad_row_is_named(rows, spec, file_format, tmp_path):
    with pytest.raises(UserError, match="in, line 2: "):
        _read(write(tmp_path / "in", rows), spec, file_format)


def test_standard_input_has_a_header_only_if_format_or_names_say_so(
    monkeypatch,
):
    def read(spec, file_format="auto"):
        file = io.BytesIO(b"\xef\xbb\xbfreview\treply\na\tb\n")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        return _read("", spec, file_format)

    rows = [(1, ("review", "reply")), (2, ("a", "b"))]
    columns = dataclasses.replace(CUSTOM, delimiter="")
    custom = CUSTOM_PAIR._replace(columns=columns)
    assert read(custom) == read(PAIR) == rows
    assert read(custom, "tsv") == rows[1:]
    assert read(PAIR._replace(names=custom.names)) == rows[1:]


def _example(number, inputs):
    if not inputs[0]:
        raise BadRowError("It is empty.")
    return {"number": number, "text": inputs[0]}


def _write(rows, output, name="rows", skip=False):
    source = InputSource(name, rows, BadRows(skip=skip))
    blocks = answering.answer_blocks(source, _example, list)
    answering.write_answers(blocks, source, str(output))


def test_bad_rows_are_left_out_and_counted(tmp_path, capsys):
    rows = [(i, (text,)) for i, text in enumerate(["a", "", "b", ""], 1)]
    with pytest.raises(UserError, match="rows, line 2"):
        _write(rows, tmp_path / "out")
    assert not list(tmp_path.iterdir())
    _write(rows, tmp_path / "out", skip=True)
    assert (tmp_path / "out").read_text() == (
        '{"line": 1, "number": 0, "text": "a"}\n'
        '{"line": 3, "number": 1, "text": "b"}\n'
    )
    note, _ = capsys.readouterr().err.splitlines()
    assert note.startswith("2 bad rows of rows") and "line 2: " in note


def test_an_output_replaces_what_a_link_names_but_never_its_input(tmp_path):
    path, link = tmp_path / "in.txt", tmp_path / "link"
    path.write_text("a\n")
    link.symlink_to(path)
    for output in (path, link):
        with pytest.raises(UserError):
            _write([(1, ("a",))], output, str(path))
    assert path.read_text() == "a\n"
    _write([(1, ("a",))], link)
    assert link.is_symlink() and '"text": "a"' in path.read_text()
