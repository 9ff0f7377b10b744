import bz2
import gzip
import json

import pytest

from electra_tf.finetune import inputs
from electra_tf.finetune.inputs import Asked
from electra_tf.finetune.reading import BadRowError
from electra_tf.util.errors import UserError

TEXT = Asked(("text",))
PAIR = Asked(("question", "context"))
WORDS = Asked(("words",), takes_words=True)


def _read(path, asked, file_format="auto"):
    source = inputs.of_file(str(path), file_format, asked)
    return [(number, source.parse(row)) for number, row in source.rows]


def test_a_text_file_has_a_text_a_line_whatever_is_in_it(tmp_path):
    path = tmp_path / "a.txt"
    text = "\ufeffa film\r\n\n\ttab\u2028sep\n[SEP] ü"
    path.write_bytes(text.encode())
    rows = ["a film", "", "\ttab\u2028sep", "[SEP] ü"]
    expected = [(i, (row,)) for i, row in enumerate(rows, start=1)]
    assert _read(path, TEXT) == expected


@pytest.mark.parametrize(
    ("ending", "pack"),
    [("", bytes), (".gz", gzip.compress), (".BZ2", bz2.compress)],
)
def test_pairs_are_columns_also_of_compressed_files(ending, pack, tmp_path):
    path = tmp_path / f"a.tsv{ending}"
    path.write_bytes(pack(b"who?\the\nwhat?\t\n"))
    expected = [(1, ("who?", "he")), (2, ("what?", ""))]
    assert _read(path, PAIR) == expected


def test_columns_of_a_table_have_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('context,id,question\nc,7,"a\nb"\n\nd,8,q\n', "utf-8")
    assert _read(path, PAIR) == [(2, ("a\nb", "c")), (5, ("q", "d"))]
    for row, problem in ((b"a", "2 columns. Received: 1"), (b"a,\xff", "text")):
        path.write_bytes(b"id,text\n" + row)
        with pytest.raises(BadRowError, match=problem):
            _read(path, TEXT)


def test_objects_are_read_by_the_names_of_inputs(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"context": "c", "id": 7, "question": "q"}]
    rows.append({"question": "a\tb\n", "context": "d"})
    path.write_text("\n\n".join(map(json.dumps, rows)), "utf-8")
    expected = [(1, ("q", "c")), (3, ("a\tb\n", "d"))]
    assert _read(path, PAIR) == expected


def test_a_field_may_be_in_a_field(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"r": {"body": "good"}}', "utf-8")
    assert _read(path, Asked(("r.body",))) == [(1, ("good",))]


def test_words_are_a_list_or_a_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"words": ["a", "b c"]}\n{"words": "a b"}', "utf-8")
    assert _read(path, WORDS) == [(1, (["a", "b c"],)), (2, ("a b",))]


@pytest.mark.parametrize(
    ("row", "asked", "file_format", "problem"),
    [
        (b"a\tb", TEXT, "tsv", "columns 'text',.*Received: 2"),
        (b"a", PAIR, "txt", "'question', 'context'.*Received: 1"),
        (b"\xff", TEXT, "txt", "UTF-8"),
        (b"{", TEXT, "jsonl", "JSON. Received"),
        (b"[1]", TEXT, "jsonl", r"JSON object. Received: \[1\]"),
        (b'{"txt": 1}', TEXT, "jsonl", "have 'text'.*Did you mean"),
        (b'{"text": "\\ud800"}', TEXT, "jsonl", "'text' must be a text"),
        (b'{"text": ["a"]}', TEXT, "jsonl", "'text' must be a text"),
        (b'{"words": [1]}', WORDS, "jsonl", "text or a list of words"),
    ],
)
def test_a_bad_row_says_what_it_must_be(row, asked, file_format, problem):
    with pytest.raises(BadRowError, match=problem):
        inputs._parse(row, file_format, asked)


@pytest.mark.parametrize(
    ("item", "problem"),
    [("who", "'question', 'context'.*'who'"), (("a",), "1 values")]
    + [(("a", 3), "'context' must be a text. Received: 3"), (5, "Received: 5")],
)
def test_an_item_that_is_no_pair_is_refused(item, problem):
    with pytest.raises(BadRowError, match=problem):
        inputs.inputs_of(item, PAIR)


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(UserError, match="none.jsonl"):
        _read(tmp_path / "none.jsonl", TEXT)
    for name, content, problem in (
        ("a.doc", b"a", r"\.jsonl.*a\.doc.*--input_format"),
        ("a.csv", b'text\nb\n"a', r"RFC 4180.*a\.csv, line 3"),
        ("a.txt", b"", "nothing in .*a.txt"),
        ("a.txt.gz", gzip.compress(b"x" * 999)[:-9], "a.txt.gz, after line 0"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=problem):
            _read(tmp_path / name, TEXT)
    assert _read(tmp_path / "a.doc", TEXT, "txt") == [(1, ("a",))]


def test_texts_of_the_command_line_are_as_many_as_the_model_reads():
    source = inputs.of_texts(["q", "c"], PAIR)
    assert [source.parse(row) for _, row in source.rows] == [("q", "c")]
    with pytest.raises(UserError, match="--text and --text_b"):
        inputs.of_texts(["q"], PAIR)
    with pytest.raises(UserError, match="'text'.*2 of them.*--text alone"):
        inputs.of_texts(["q", "c"], TEXT)
