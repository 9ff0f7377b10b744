import gzip

import pytest
from analysis_configs import config

from electra_tf.analysis.examples import json_rows
from electra_tf.util.errors import UserError


def _read(*paths):
    return json_rows.read(
        config(*paths), "test", lambda record, _: record.value("n", int)
    )


def test_lists_and_lines_are_read_in_order_from_files_and_directories(tmp_path):
    lines = "".join(f'{{"n": {n}}}\n\n' for n in (3, 4))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "a.json").write_text('\n[{"n": 1}, {"n": 2}]', "utf-8")
    (tmp_path / "README.md").write_text("no row", "utf-8")
    assert _read(tmp_path / "b.jsonl.gz", tmp_path) == [3, 4, 1, 2]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", "{", r"a\.json must be a JSON file.*\.jsonl"),
        ("a.json", '{"n": 1}', r"a\.json must be a list of JSON objects"),
        ("a.json", "[]", r"a\.json must hold examples"),
        ("a.jsonl", "\n", r"a\.jsonl must hold examples"),
        ("a.jsonl.gz", "no gzip", r"a\.jsonl\.gz must be text|that can"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(ValueError):
        _read(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.json", '[{"n": 1}, 3]', "entry 2"),
        ("a.jsonl", '{"n": 1}\n\n{"n"', "line 3"),
        ("a.jsonl", '{"n": "1"}', "line 1"),
    ],
)
def test_a_bad_row_is_named_by_file_and_place(tmp_path, name, content, place):
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(UserError, match=f"{name}, {place}:"):
        _read(tmp_path / name)
