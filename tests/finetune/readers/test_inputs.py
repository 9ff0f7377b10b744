import bz2
import dataclasses
import gzip
import io
import json

import pytest

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data.formats import conll, contents
from electra_tf.data.formats.rows import BadRowError, BadRows
from electra_tf.finetune.readers import inputs, sources
from electra_tf.finetune.readers.inputs import InputSpec
from electra_tf.util.errors import UserError

TEXT = InputSpec(("text",))
PAIR = InputSpec(("question", "context"))
WORDS = InputSpec(("words",), takes_words=True)


def _read(path, spec, file_format="auto"):
    source = inputs.of_file(str(path), file_format, spec)
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
    assert _read(path, InputSpec(("r.body",))) == [(1, ("good",))]


def test_words_are_a_list_or_a_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"words": ["a", "b c"]}\n{"words": "a b"}', "utf-8")
    assert _read(path, WORDS) == [(1, (["a", "b c"],)), (2, ("a b",))]


@pytest.mark.parametrize(
    ("row", "spec", "file_format", "problem"),
    [
        (b"a\tb", TEXT, "tsv", "columns 'text',.*Received: 2"),
        (b"a", PAIR, "txt", "'question', 'context'.*Received: 1"),
        (b"\xff", TEXT, "txt", "UTF-8"),
        (b"{", TEXT, "jsonl", "JSON. Received"),
        (b"[1]", TEXT, "jsonl", r"JSON object. Received: \[1\]"),
        (b'{"txt": 1}', TEXT, "jsonl", "have 'text'.*Did you mean"),
        (b'{"text": "\\ud800"}', TEXT, "jsonl", "Unicode.*a surrogate"),
        (b'{"text": ["a"]}', TEXT, "jsonl", "'text' must be a text"),
        (b'{"words": [1]}', WORDS, "jsonl", "text or a list of words"),
    ],
)
def test_a_bad_row_says_what_it_must_be(
    row, spec, file_format, problem, tmp_path
):
    path = tmp_path / "a"
    path.write_bytes(row)
    with pytest.raises(BadRowError, match=problem):
        _read(path, spec, file_format)


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
        ("a.csv", b'text\nb\n"a', r"a\.csv, line 3: A quotation mark"),
        ("b.csv", b"txt\nb", r"b\.csv, line 1: `text`.*--input_format=txt"),
        ("c.csv", b"text,a,text\n", r"'text' more than once\. Name the col"),
        ("d.csv", b"\n\n", r"d\.csv must hold rows"),
        ("a.conll", b"a O", r"a\.conll as conll"),
        ("a.txt", b"", "nothing in .*a.txt"),
        ("a.txt.gz", gzip.compress(b"x" * 999)[:-9], "a.txt.gz, after line 0"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=problem):
            _read(tmp_path / name, TEXT)
    assert _read(tmp_path / "a.doc", TEXT, "txt") == [(1, ("a",))]


CUSTOM = ColumnsConfig(
    task_kind="classification",
    text_column="review",
    text_b_column="reply",
    delimiter=";",
    quoting="true",
)
CUSTOM_PAIR = InputSpec(("review", "reply"), columns=CUSTOM)


def test_tables_of_a_custom_task_are_read_as_its_training_files_are(tmp_path):
    path = tmp_path / "a.tsv"
    content = 'reply;stars;review\n"a;b";5;c\nd;"1\n2";\n\n'
    path.write_text(content, "utf-8")
    file = sources.Source(path)
    records = list(sources.read(file, CUSTOM, ("review", "reply")))
    good, bad = inputs.of_file(str(path), "auto", CUSTOM_PAIR).rows
    assert [good, bad] == [(record.place, record) for record in records]
    source = inputs.of_file(str(path), "auto", CUSTOM_PAIR)
    assert source.parse(good[1]) == ("c", "a;b")
    with pytest.raises(BadRowError, match="'review' must be a text that is no"):
        source.parse(bad[1])


def test_columns_are_numbers_where_training_files_had_no_header(tmp_path):
    columns = dataclasses.replace(
        CUSTOM,
        has_header=False,
        text_column="3",
        text_b_column="1",
        label_column="2",
    )
    path = tmp_path / "a.csv"
    path.write_text("reply;stars;review\na;5;b\n", "utf-8")
    expected = [(1, ("review", "reply")), (2, ("b", "a"))]
    assert _read(path, InputSpec(("3", "1"), columns=columns)) == expected


def test_objects_of_a_custom_task_may_be_in_any_file(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.ndjson.zst"
    content = b'{"review": "a", "reply": "b"}\n{"review": "", "reply": "b"}\n'
    path.write_bytes(arrow.compress(content, codec="zstd", asbytes=True))
    source = inputs.of_file(str(path), "auto", CUSTOM_PAIR)
    (_, good), (_, bad) = source.rows
    assert source.parse(good) == ("a", "b")
    with pytest.raises(BadRowError, match="not empty"):
        source.parse(bad)


def test_rows_that_a_shell_passes_on_have_no_line_of_names(monkeypatch):
    def read(spec, file_format="auto"):
        file = io.BytesIO(b"review\treply\na\tb\n")
        monkeypatch.setattr(inputs, "_opened", lambda path: file)
        return _read("", spec, file_format)

    rows = [(1, ("review", "reply")), (2, ("a", "b"))]
    columns = dataclasses.replace(CUSTOM, delimiter="", quoting="auto")
    own = InputSpec(("review", "reply"), columns=columns)
    assert read(own) == rows and read(own, "tsv") == rows[1:]
    assert (
        read(PAIR) == rows
        and read(PAIR._replace(names=own.names)) == (rows[1:])
    )


def test_a_byte_order_mark_of_standard_input_is_no_text(monkeypatch):
    file = io.BytesIO(b"\xef\xbb\xbfa\nb\n")
    monkeypatch.setattr(io, "FileIO", lambda *args, **kwargs: file)
    assert _read("", TEXT) == [(1, ("a",)), (2, ("b",))]


WORD_FILES = {
    ".conll": conll.Columns(),
    ".tsv": conll.Columns(1, separator="\t"),
    ".conllu": conll.CONLLU,
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conll", "-DOCSTART- O\n\nIn O\nYork B\n\n\nx O"),
        ("a.tsv", "\n\n1\tIn\n2\tYork\n\n\n1\tx"),
        ("a.conllu.gz", "# a\n\n1\tIn\tx\n2\tYork\tx\n\n# b\n1\tx\tx\n"),
    ],
)
def test_a_tagger_reads_the_sentences_of_its_training_files(
    name, content, tmp_path
):
    spec = WORDS._replace(word_files=WORD_FILES)
    path = tmp_path / name
    content = content.encode()
    path.write_bytes(gzip.compress(content) if ".gz" in name else content)
    assert _read(path, spec) == [(3, (("In", "York"),)), (7, (("x",),))]
    check = lambda word: None  # noqa: E731
    read = conll.read(
        path,
        sources.read_lines(path),
        WORD_FILES[contents.ending(path.name)],
        bad_rows=BadRows(skip=False),
        check=check,
    )
    words = [tuple(word.text for word in words) for words in read]
    assert words == [("In", "York"), ("x",)]


def test_lines_of_a_txt_file_are_words_only_where_that_is_told(tmp_path):
    spec = WORDS._replace(word_files=WORD_FILES)
    path = tmp_path / "a.txt"
    path.write_bytes(b"In O\nYork B\n")
    assert _read(path, spec) == [(1, ("In O",)), (2, ("York B",))]
    assert _read(path, spec, "conll") == [(1, (("In", "York"),))]


def test_a_word_that_cannot_be_read_makes_its_sentence_bad(tmp_path):
    spec = WORDS._replace(word_files=WORD_FILES)
    path = tmp_path / "a.tsv"
    path.write_bytes(b"1\tIn\n2\n\n1\tx\n")
    source = inputs.of_file(str(path), "auto", spec)
    (_, bad), (_, good) = source.rows
    assert source.parse(good) == (("x",),)
    with pytest.raises(BadRowError, match="word in column 2"):
        source.parse(bad)


def test_texts_of_the_command_line_are_as_many_as_the_model_reads():
    source = inputs.of_texts(["q", "c"], PAIR)
    assert [source.parse(row) for _, row in source.rows] == [("q", "c")]
    with pytest.raises(UserError, match="--text and --text_b"):
        inputs.of_texts(["q"], PAIR)
    with pytest.raises(UserError, match="'text'.*2 of them.*--text alone"):
        inputs.of_texts(["q", "c"], TEXT)
