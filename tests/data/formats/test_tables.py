"""Tables are split as extension and flags say; errors name the way out."""

import csv
import io
import re

import pytest

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data.formats import contents, tables
from electra_tf.data.formats.rows import BadRowError
from electra_tf.util.errors import UserError


def _read(content, name="x.csv", columns=("text", "label"), **config):
    config = ColumnsConfig(task_kind="classification", **config)
    kind = contents.ending(name)
    table = tables.TableFile(name, io.BytesIO(content), kind, config)
    return list(tables.read(table, columns))


@pytest.mark.parametrize(
    ("name", "content", "config", "expected"),
    [
        (
            "x.csv",
            b'text,label\r\n"a, ""b""\r\n\r\nc",1\r\n\r\nd\xe2\x80\xa8,2\r\n',
            {},
            [(2, 'a, "b"\r\n\r\nc', "1"), (6, "d\u2028", "2")],
        ),
        (
            "x.tsv",
            b'text\tlabel\n"a\t1\n"b"\t2\r\n',
            {},
            [(2, '"a', "1"), (3, '"b"', "2")],
        ),
        (
            "x.tsv",
            b'text\tlabel\n"a\tb\n"\t1\n',
            {"quoting": "true"},
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
            b"text\tlabel\nx,y\t1\n",
            {"delimiter": "tab"},
            [(2, "x,y", "1")],
        ),
    ],
)
def test_rows_are_split_as_the_ending_and_flags_say(
    name, content, config, expected
):
    records = _read(content, name, **config)
    found = [(r.place, r.value("text"), r.value("label")) for r in records]
    assert found == expected


@pytest.mark.parametrize(
    ("content", "name", "config", "delimiter"),
    [
        (b"text;label\na, b;1\n", "x.csv", {}, "';'"),
        (b'"text";"label"\r\n"a";1\r\n', "x.csv", {}, "';'"),
        (b"id\ttext\tlabel\n1\ta, b\t1\n", "x.csv", {}, "tab"),
        (b"text,label\na,1\n", "x.tsv", {}, "','"),
        (b"text|label\na|1\n", "x.csv", {}, "'|'"),
        (b"text,label\na,1\n", "x.csv", {"delimiter": ";"}, "','"),
        (b"body;label\na;1\n", "x.csv", {}, "';'"),  # and a wrong name
        (b"a;1\n", "x.csv", {"has_header": False}, "';'"),
    ],
)
def test_the_error_suggests_the_delimiter_of_the_file(
    content, name, config, delimiter
):
    columns = ("text", "label")
    if config.get("has_header") is False:
        columns = ("1", "2")
        config = dict(config, text_column="1", label_column="2")
    problem = (
        rf"{name}, line 1: `\w+` must be a column. Received: .* The "
        f"delimiter seems to be .*: set --delimiter={re.escape(delimiter)}."
    )
    with pytest.raises(UserError, match=problem):
        _read(content, name, columns, **config)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"text;label\na;1\n", "put commas .* between its columns"),
        (b'text,label\n"a,1\n', "line 2: A quoted field .* Correct it[.]$"),
    ],
)
def test_no_flag_is_advised_where_a_command_has_none(content, problem):
    table = tables.TableFile(
        *("x.csv", content.splitlines(keepends=True), ".csv", ColumnsConfig()),
        has_flags=False,
    )
    with pytest.raises(UserError, match=problem):
        list(tables.read(table, ["text"]))


@pytest.mark.parametrize("line", [b"a\rb\n", b"a" * 200_000 + b"\n"])
def test_the_error_of_a_bad_first_line_names_the_file(line):
    with pytest.raises(UserError, match=r"x\.csv, line 1: .* must "):
        _read(line)


def test_a_missing_column_alone_suggests_no_delimiter():
    with pytest.raises(UserError, match="Received: 'a; b', 'label'") as caught:
        _read(b"a; b,label\nx,1\n")
    assert "--delimiter" not in str(caught.value)


def test_columns_without_a_header_are_numbers():
    numbers = {"text_column": "2", "label_column": "1", "has_header": False}
    (record,) = _read(b"pos,good\n", columns=("1", "2"), **numbers)
    assert record.place == 1 and record.value("2") == "good"
    with pytest.raises(UserError, match="line 1: `3`.* Received: '1', '2'"):
        _read(b"pos,good\n", columns=("3",), **numbers)


def test_a_field_may_be_longer_than_the_limit_of_the_csv_module():
    before = csv.field_size_limit()
    text = "a" * 200_000
    (record,) = _read(f'text,label\n"{text}",1\n'.encode())
    assert record.value("text") == text
    assert csv.field_size_limit() == before, "it is that of the whole process"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"txt,label\na,1\n", "line 1: `text`.*'txt', 'label'.*mean 'txt'"),
        (b"a film,1\nb,2\n", "line 1: `text` .*--nohas_header"),
        (b"text,label,text\na,1,b\n", "line 1: .*'text' more than once"),
        (b"t\xffext,label\na,1\n", "line 1: .*UTF-8"),
        (b'text,label\na,1\n"b,2\nc,3\n', "line 3: A quoted field"),
        (b"\n\n", "must hold rows"),
    ],
)
def test_a_table_that_cannot_be_read_is_an_error(content, problem):
    with pytest.raises(UserError, match=rf"x\.csv.*{problem}"):
        _read(content)


def test_a_file_must_have_an_ending_that_is_known():
    with pytest.raises(UserError, match=r"x\.xlsx must end in \.csv.*'.xlsx'"):
        _read(b"x", "x.xlsx")


@pytest.mark.parametrize(
    ("name", "row", "problem"),
    [
        ("x.csv", b"a", "2 columns. Received: 1"),
        ("x.csv", b"a,1,", "2 columns. Received: 3"),
        ("x.csv", b'"a"b,1', "RFC 4180"),
        ("x.csv", b"\xe4,1", "UTF-8"),
        ("x.tsv", b"a 1", "2 columns. Received: 1"),
        ("x.jsonl", b'{"text": "a", "label"}', "JSON.*column 22"),
    ],
)
def test_a_bad_row_leaves_the_next_one_whole(name, row, problem):
    header, good = {
        "x.csv": (b"text,label\n", b'"b\nc",2\n'),
        "x.tsv": (b"text\tlabel\n", b"b\t2\n"),
        "x.jsonl": (b"\n", b'{"text": "b", "label": 2}\n'),
    }[name]
    bad, last = _read(header + row + b"\n" + good, name)
    assert bad.place == 2 and last.place == 3
    assert last.value("text")[0] == "b"
    with pytest.raises(BadRowError, match=problem):
        bad.value("text")


def test_a_layout_needs_as_many_columns_as_its_last_position():
    lines = [b"h\ti\tj\n", b"a\tb\tc\n"]
    table = tables.TableFile("x", lines, ".tsv", ColumnsConfig())
    short, fitting = (
        table._replace(layout=tables.Layout({"text": n})) for n in (3, 2)
    )
    with pytest.raises(UserError, match="at least 4 columns. Received: 3"):
        list(tables.read(short, ()))
    (record,) = tables.read(fitting, ())
    assert record.value("text") == "c"
