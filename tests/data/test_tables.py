"""Tables are split as endings and flags say; bad rows are named or counted."""

import gzip

import pytest
from corpora import write

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError, BadRows, Row, WordColumns
from electra_tf.util.errors import UserError

COLUMNS = ("text", "label")
QUOTED = '\ufefftext,label\r\n"a, ""b""\r\n\r\nc",1\r\n\r\nd\u2028,2\r\n'
LONG, TAB = "a" * 200_000, {"delimiter": "tab"}


def _read(path, content, columns=COLUMNS, **config):
    write(path, content)
    config = ColumnsConfig(task_kind="classification", **config)
    return list(tables.read_rows(path, columns, config))


@pytest.mark.parametrize(
    ("name", "content", "config", "expected"),
    [
        ("x.csv", QUOTED, {}, {2: 'a, "b"\r\n\r\nc', 6: "d\u2028"}),
        ("x.csv", f"text,label\n{LONG},1\n", {}, {2: LONG}),
        ("x.csv", "text; label\nx,y;1\n", {"delimiter": ";"}, {2: "x,y"}),
        ("x.csv", 'text\tlabel\n"a\tb"\t1\n', TAB, {2: "a\tb"}),
        ("x.csv", "x,1\n", {"has_header": False}, {1: "x"}),
        ("x.tsv", 'text\tlabel\n"a\t1\n\n"b"\t2\r\n', {}, {2: '"a', 4: '"b"'}),
        ("x.ndjson", '{"text": "a"}\n\n{"text": "c"}', {}, {1: "a", 3: "c"}),
        ("x.json", '[{"text": "a", "label": 1}]', {}, {"entry 1": "a"}),
    ],
)
def test_rows_are_split_as_the_ending_and_flags_say(
    name, content, config, expected, tmp_path
):
    columns = COLUMNS if config.get("has_header", True) else ("1", "2")
    rows = _read(tmp_path / name, content, columns, **config)
    assert {row.place: row[columns[0]] for row in rows} == expected


def test_a_layout_names_columns_by_position(tmp_path):
    path = write(tmp_path / "x.tsv", "h\ti\tj\n" + "a\tb\tc\n")

    def read(positions, num_columns=None):
        layout = tables.Layout(positions, num_columns)
        return list(tables.read_rows(path, layout=layout))

    (row,) = read({"text": 2, "label": 0})
    assert (row["text"], row["label"]) == ("c", "a")
    assert len(read({"text": 2, "label": 0}, 3)) == 2
    with pytest.raises(UserError):
        read({"text": 3})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "txt,label\na,1\n"),
        ("x.csv", "text,label,text\na,1,b\n"),
        ("x.csv", b"text,label\na,\xff\n"),
        ("x.csv", 'text,label\na,1\n"b,2\nc,3\n'),
        ("x.csv", 'text,label\n"a"b,1\n'),
        ("x.xlsx", "x"),
        ("x.json", "{"),
        ("x.json", "{}"),
        ("x.csv.gz", gzip.compress(b"text,label\n", mtime=0)[:-9]),
    ],
)
def test_a_table_that_cannot_be_read_is_an_error(name, content, tmp_path):
    with pytest.raises(UserError, match="x"):
        _read(tmp_path / name, content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "text,label\na\nb,2\n"),
        ("x.csv", "text,label\na,1,\nb,2\n"),
        ("x.tsv", 'text\tlabel\n"a\tb"\t1\nb\t2\n'),
        ("x.jsonl", '\n{"text": "a", "label"}\n{"text": "b"}\n'),
        ("x.jsonl", '\n["a", 1]\n{"text": "b"}\n'),
        ("x.jsonl", '\n{"txt": "a"}\n{"text": "b"}\n'),
    ],
)
def test_a_bad_row_is_an_error_with_its_line_or_is_skipped(
    name, content, tmp_path
):
    bad, good = _read(tmp_path / name, content)
    assert good.text("text") == "b"
    with pytest.raises(UserError, match=f"{name}, line 2: "):
        with BadRows().at(name, bad.place):
            bad.text("text")
    bad_rows = BadRows(skip=True)
    for row in (bad, good, bad, good):
        with bad_rows.at(name, row.place):
            row.text("text")
    assert bad_rows.counts == {name: 1}, "though the row was read twice"


ROW = Row({"a": {"b": "x"}, "a.c": "y", "t": " ", "n": 1, "null": None})
ROW |= {"l": [1], "w": ["a", ""], "f": True, "d": 0.5}


def test_values_have_their_kind():
    assert ROW.value("a.b") == "x" and ROW.value("a.c") == "y"
    assert ROW.value("n", int) == 1 and ROW.value("f", bool) is True
    assert ROW.value("null", str, "z") == ROW.value("q", str, "z") == "z"
    labels = [ROW.label(column) for column in ("n", "d", "f", "t", "null", "q")]
    assert labels == ["1", "0.5", "true", None, None, None]
    assert ROW.texts("l") == ("1",)


@pytest.mark.parametrize(
    ("method", "columns"),
    [(ROW.value, ["a.d", "q"]), (ROW.text, "tn"), (ROW.texts, "wt")],
)
def test_a_value_of_another_kind_is_an_error(method, columns):
    for column in columns:
        with pytest.raises(BadRowError):
            method(column)


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u3000"])
@pytest.mark.parametrize("between", [" ", "  ", "\t", " \t "])
def test_only_ascii_spaces_and_tabs_separate_columns(blank, between):
    for text in (f"10{blank}000", f"{blank}x", f"x{blank}", blank):
        line = f"{text}{between}NUM \r\n"
        assert tables.parse_word(1, line, WordColumns()) == (1, text, "NUM")
        found = tables.parse_word(1, line, WordColumns(word=1, tag=0))
        assert found == (1, "NUM", text)


def test_an_empty_column_is_an_empty_word(tmp_path):
    path = write(tmp_path / "a", "the\tx\tO\n\tfilm\tO\n\nNew York\t\tB\n")
    with pytest.raises(UserError, match="a, line 2: "):
        list(tables.read_sentences(path, WordColumns(), BadRows()))
    found = tables.read_sentences(path, WordColumns(), BadRows(skip=True))
    assert list(found) == [((4, "New York", "B"),)]
    assert tables.parse_word(1, "New York\t\n", WordColumns()).tag is None


def test_comments_stand_before_a_sentence_and_have_other_columns(tmp_path):
    lines = ["# data", "", "# id 0\tdomain=en", "# x", "a _ B", "# _ O", ""]
    lines += ["# _ O", "b _ O", "", "# a", "", "b _ O", "# _", "c _ O", ""]
    path, bad_rows = write(tmp_path / "a", "\n".join(lines)), BadRows(skip=True)
    found = tables.read_sentences(path, WordColumns(), bad_rows)
    sentences = [[word[1:] for word in words] for words in found]
    assert sentences[0] == [("a", "B"), ("#", "O")]
    assert sentences[1] == [("#", "O"), ("b", "O")]
    assert sentences[2] == [("b", "O"), ("#", "_"), ("c", "O")]
    assert not bad_rows.counts
