import gzip
import json

import pytest

from electra_tf.analysis.examples import json_rows
from electra_tf.data.formats.rows import BadRowError
from electra_tf.util.errors import UserError


def _values(rows):
    return [row.record.value("n") for row in rows]


def test_lists_and_lines_are_read_in_order_from_files_and_directories(tmp_path):
    lines = "".join(f'{{"n": {n}}}\n\n' for n in (3, 4))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "a.json").write_text('\n[{"n": 1}, {"n": 2}]', "utf-8")
    (tmp_path / "README.md").write_text("no row", "utf-8")
    both = [str(tmp_path), str(tmp_path / "a.json")]
    assert _values(json_rows.read(both)) == [1, 2, 3, 4, 1, 2]


def test_examples_are_chosen_of_each_file_by_the_seed(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for first, path in zip((0, 100), paths, strict=True):
        rows = [{"n": first + n} for n in range(100)]
        path.write_text(json.dumps(rows), "utf-8")
    paths = [*map(str, paths)]
    one = _values(json_rows.read(paths, max_examples=5, seed=1))
    assert one == _values(json_rows.read(paths, max_examples=5, seed=1))
    assert one != _values(json_rows.read(paths, max_examples=5, seed=2))
    assert one == sorted(one) and len({*one}) == 10
    assert sum(n < 100 for n in one) == 5
    assert len(json_rows.read(paths, max_examples=100)) == 200


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", "{", r"a\.json must be a JSON file.*\.jsonl"),
        ("a.json", '{"n": 1}', r"a\.json must be a list of JSON objects"),
        ("a.json", "[]", r"a\.json must hold JSON objects. Received: none"),
        ("a.jsonl", "\n", r"a\.jsonl must hold JSON objects"),
        ("a.jsonl.gz", "no gzip", r"a\.jsonl\.gz must be text|that can"),
        ("a.tsv", "n\n1\n", r"a\.tsv must end in \.json, \.jsonl"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(UserError, match=problem):
        json_rows.read([str(tmp_path / name)])


def test_a_path_without_files_is_named(tmp_path):
    (tmp_path / "README.md").write_text("no row", "utf-8")
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(UserError, match=f"{path}"):
            json_rows.read([str(path)])


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.json", '[{"n": 1}, 3]', "entry 2"),
        ("a.jsonl", '{"n": 1}\n\n{"n"', "line 3"),
    ],
)
def test_a_bad_row_is_named_by_file_and_place(tmp_path, name, content, place):
    (tmp_path / name).write_text(content, "utf-8")
    rows = json_rows.read([str(tmp_path / name)])
    with pytest.raises(UserError, match=rf"{name}, {place}: .*Received"):
        for row in rows:
            with json_rows.place_of(row):
                row.record.value("n")
    with pytest.raises(UserError, match=rf"{name}, .*1: my problem"):
        with json_rows.place_of(rows[0]):
            raise BadRowError("my problem")
