"""Tables are split as endings and flags say; bad rows are named or counted."""

import gzip

import pyarrow
import pyarrow.parquet
import pytest
from corpora import COMPRESS, write

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError, BadRows, Row, WordColumns
from electra_tf.util.errors import UserError


def _read(path, content, columns=("text", "label"), **config):
    write(path, content)
    config = ColumnsConfig(task_kind="classification", **config)
    return list(tables.read_rows(path, columns, config))


@pytest.mark.parametrize(
    ("name", "content", "config", "expected"),
    [
        (
            "x.csv",
            '\ufefftext,label\r\n"a, ""b""\r\n\r\nc",1\r\n\r\nd\u2028,2\r\n',
            {},
            [(2, 'a, "b"\r\n\r\nc', "1"), (6, "d\u2028", "2")],
        ),
        (
            "x.tsv",
            b'text\tlabel\n"a\t1\n\n"b"\t2\r\n',
            {},
            [(2, '"a', "1"), (4, '"b"', "2")],
        ),
        (
            "x.csv",
            b'text\tlabel\n"a\tb\n"\t1\n',
            {"delimiter": "tab"},
            [(2, "a\tb\n", "1")],
        ),
        (
            "x.csv",
            b"text; label\nx,y;1\n",
            {"delimiter": ";"},
            [(2, "x,y", "1")],
        ),
        (
            "x.csv",
            b"text,label\n" + b"a" * 200_000 + b",1\n",
            {},
            [(2, "a" * 200_000, "1")],
        ),
        (
            "x.ndjson",
            b'{"text": "a", "label": 1}\n\n{"label": "b", "text": "c"}',
            {},
            [(1, "a", 1), (3, "c", "b")],
        ),
        (
            "x.csv",
            b"x,1\n",
            {"has_header": False, "text_column": "1", "label_column": "2"},
            [(1, "x", "1")],
        ),
        (
            "x.json",
            b'[{"text": "a", "label": 1}]',
            {},
            [("entry 1", "a", 1)],
        ),
    ],
)
def test_rows_are_split_as_the_ending_and_flags_say(
    name, content, config, expected, tmp_path
):
    columns = ("text", "label") if config.get("has_header", True) else "12"
    rows = _read(tmp_path / name, content, columns, **config)
    assert [(r.place, *(r[x] for x in columns)) for r in rows] == expected


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_compressed_table_is_read_if_it_is_whole(ending, tmp_path):
    path = tmp_path / f"x.jsonl{ending}"
    packed = COMPRESS[ending](b'{"text": "a"}\n' * 9)
    path.write_bytes(packed)
    assert list(tables.read_rows(path)) == [{"text": "a"}] * 9
    for damaged in (packed[:-9], packed[:2] + b"?" + packed[3:], b"a\n"):
        path.write_bytes(damaged)
        with pytest.raises(UserError):
            list(tables.read_rows(path))


def test_parquet_is_a_table(tmp_path):
    table = pyarrow.table({"text": ["a", "b"], "label": [1, 2]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    rows = tables.read_rows(tmp_path / "x.parquet")
    assert list(rows) == [{"text": "a", "label": 1}, {"text": "b", "label": 2}]


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
        ("x.csv", b"txt,label\na,1\n"),
        ("x.csv", b"text;label\na;1\n"),
        ("x.csv", b"text,label,text\na,1,b\n"),
        ("x.csv", b"text,label\na,\xff\n"),
        ("x.csv", b'text,label\na,1\n"b,2\nc,3\n'),
        ("x.csv", b'text,label\n"a"b,1\n'),
        ("x.xlsx", b"x"),
        ("x.json", b"{"),
        ("x.json", b"{}"),
        ("x.csv.gz", gzip.compress(b"text,label\n", mtime=0)[:-9]),
    ],
)
def test_a_table_that_cannot_be_read_is_an_error(name, content, tmp_path):
    with pytest.raises(UserError, match="x"):
        _read(tmp_path / name, content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", b"text,label\na\nb,2\n"),
        ("x.csv", b"text,label\na,1,\nb,2\n"),
        ("x.tsv", b"text\tlabel\na 1\nb\t2\n"),
        ("x.jsonl", b'\n{"text": "a", "label"}\n{"text": "b"}\n'),
        ("x.jsonl", b'\n["a", 1]\n{"text": "b"}\n'),
        ("x.jsonl", b'\n{"txt": "a"}\n{"text": "b"}\n'),
    ],
)
def test_a_bad_row_is_an_error_with_its_line_or_is_skipped(
    name, content, tmp_path
):
    for row in (rows := _read(tmp_path / name, content)):
        bad_rows = BadRows(skip=row is rows[0])
        with bad_rows.at(name, row.place):
            assert row.text("text") == "b"
    bad_rows = BadRows(skip=True)
    for row in (*rows, *rows):
        with bad_rows.at(name, row.place):
            row.text("text")
    assert bad_rows.counts == {name: 1}, "though the row was read twice"
    with pytest.raises(UserError, match=f"{name}, line 2: "):
        with BadRows().at(name, rows[0].place):
            rows[0].text("text")


def test_values_are_checked():
    row = Row({"a": {"b": "x"}, "a.c": "y", "t": " ", "n": 1, "null": None})
    row |= {"l": [1], "w": ["a", ""], "f": True, "d": 0.5}
    assert row.value("a.b") == "x" and row.value("a.c") == "y"
    assert row.value("n", int) == 1 and row.value("f", bool) is True
    assert row.value("null", str, "z") == row.value("q", str, "z") == "z"
    labels = [row.label(column) for column in ("n", "d", "f", "t", "null", "q")]
    assert labels == ["1", "0.5", "true", None, None, None]
    assert row.texts("l") == ("1",)
    for call in (
        *(lambda: row.value("a.d"), lambda: row.value("q")),
        *(lambda: row.value("f", int), lambda: row.value("t", int)),
        *(lambda: row.text("t"), lambda: row.text("n")),
        *(lambda: row.texts("w"), lambda: row.texts("t")),
        lambda: row.label("l"),
    ):
        with pytest.raises(BadRowError):
            call()


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u3000"])
@pytest.mark.parametrize("between", [" ", "  ", "\t", " \t "])
def test_only_ascii_spaces_and_tabs_separate_columns(blank, between):
    for text in (f"10{blank}000", f"{blank}x", f"x{blank}", blank):
        line = f"{text}{between}NUM \r\n"
        assert tables.parse_word(1, line, WordColumns()) == (1, text, "NUM")
        found = tables.parse_word(1, line, WordColumns(word=1, tag=0))
        assert found == (1, "NUM", text)


@pytest.mark.parametrize("name", ["a.conll", "a.tsv"])
def test_an_empty_column_is_an_empty_word(name, tmp_path):
    path = write(tmp_path / name, "the\tx\tO\n\tfilm\tO\n\nNew York\t\tB\n")
    separator = "\t" if name == "a.tsv" else None
    columns = WordColumns(separator=separator)

    def read(columns, **options):
        return list(tables.read_sentences(path, columns, BadRows(**options)))

    with pytest.raises(UserError, match=rf"{name}, line 2: "):
        read(columns)
    (sentence,) = read(columns, skip=True)
    assert sentence == ((4, "New York", "B"),)
    with pytest.raises(UserError, match=rf"{name}, line 4: "):
        read(WordColumns(word=1, tag=0))
