"""A bad row is named by its place, or counted once and left out."""

import io

import pytest

from electra_tf.data.formats import rows
from electra_tf.util.errors import UserError


def test_only_a_line_feed_ends_a_line():
    content = "a\u2028b\tc\r\n\nd\x0be\x85\n".encode() + b"\xff"
    assert [tuple(line) for line in rows.numbered(io.BytesIO(content))] == [
        (1, "a\u2028b\tc"),
        (2, ""),
        (3, "d\x0be\x85"),
        (4, None),
    ]


def test_a_bad_row_is_an_error_with_its_place():
    strict = rows.BadRows(skip=False)
    for place, where in ((2, "line 2"), ("question 7", "question 7")):
        with (
            pytest.raises(
                UserError, match=rf"x\.tsv, {where}: Wrong\. Correct"
            ),
            strict.at("x.tsv", place),
        ):
            raise rows.BadRowError("Wrong.")
    with strict.at("x.tsv", 1):
        pass
    assert not strict.counts


def test_the_way_out_of_a_bad_row_is_that_of_its_reader():
    strict = rows.BadRows(skip=False, way_out="Leave it out.")
    with (
        pytest.raises(UserError, match=r"^x, line 2: Wrong\. Leave it out\.$"),
        strict.at("x", 2),
    ):
        raise rows.BadRowError("Wrong.")


def test_a_bad_row_counts_once_however_often_its_file_is_read():
    lenient = rows.BadRows(skip=True)
    for line in (2, 3, 2):
        with lenient.at("x.tsv", line):
            raise rows.BadRowError("A row must be good.")
    assert lenient.counts == {"x.tsv": 2}
    (note,) = lenient.notes
    assert note == (
        "2 bad rows of x.tsv are left out. The first, line 2: A row must be "
        "good."
    )


def _record(line):
    (record,) = rows.json_records([line])
    return record


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"text": "a", "label"}', "JSON.*column 22"),
        (b'["a", 1]', r"a JSON object. Received: \['a', 1\]"),
        (b"[" * 10**5, "JSON. Received: values that nest too"),
        (b'{"text": "\xe4"}', "UTF-8"),
        (b'{"text": "\\ud800"}', "surrogate"),
        (b'{"txt": "a"}', "must have 'text'.*mean 'txt'"),
        (b'{"text": "' + b" " * 10**6 + b'"}', "10{6} bytes or fewer"),
    ],
)
def test_a_bad_line_of_json_says_what_it_must_be(line, problem, monkeypatch):
    monkeypatch.setattr(rows, "MAX_JSON_BYTES", 10**6)
    with pytest.raises(rows.BadRowError, match=problem):
        _record(line).value("text")


def test_lone_surrogates_are_read_if_they_are_allowed():
    line = b'{"text": "\\ud800"}'
    (record,) = rows.json_records([line], allows_surrogates=True)
    assert record.string("text") == "\ud800"


def test_concatenated_files_may_each_begin_with_a_byte_order_mark():
    lines = [b'{"a": 1}\n', b'\xef\xbb\xbf{"a": 2}\n']
    assert [x.value("a") for x in rows.json_records(lines)] == [1, 2]


def test_dots_name_a_field_of_a_field():
    record = _record(b'{"a": {"b": "inner"}, "a.c": "outer", "d": 1}\n')
    assert record.value("a.b") == "inner" and record.value("a.c") == "outer"
    for column in ("a.d", "d.e"):
        with pytest.raises(rows.BadRowError, match=f"must have '{column}'"):
            record.value(column)


def test_values_of_json_are_checked():
    record = _record(
        b'{"t": " ", "n": 1, "l": [1], "w": ["a", ""], "b": true, "f": [true]}'
    )
    for column in ("t", "n", "l"):
        with pytest.raises(rows.BadRowError, match="text that is not empty"):
            record.text(column)
    assert record.label("n") == "1" and record.label("b") == "true"
    assert record.label("t") is None and record.string("t") == " "
    with pytest.raises(rows.BadRowError, match="a text or a number"):
        record.label("l")
    assert record.integer("n") == 1 and record.flag("b")
    for column in ("b", "t"):
        with pytest.raises(rows.BadRowError, match="must be a whole number"):
            record.integer(column)
    assert record.texts("l") == ("1",)
    for column in ("w", "f", "t", "n"):
        with pytest.raises(rows.BadRowError, match="list of texts"):
            record.texts(column)
