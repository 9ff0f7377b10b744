"""Files of examples: which are read, and which of their rows."""

import pytest

from electra_tf.analysis.examples import files as example_files
from electra_tf.util.errors import UserError


def test_a_directory_stands_for_the_files_in_it(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("c.txt", "b/a.txt", ".hidden"):
        (tmp_path / name).touch()
    found = example_files.find([str(tmp_path), str(tmp_path / "c.txt")])
    names = [path.removeprefix(f"{tmp_path}/") for path in found]
    assert names == ["b/a.txt", "c.txt", "c.txt"]


def test_of_a_directory_other_endings_are_left_out_where_any_fits(tmp_path):
    for name in ("a.src.gz", "b.ref0"):
        (tmp_path / name).touch()
    packed, reference = (str(tmp_path / x) for x in ("a.src.gz", "b.ref0"))
    assert example_files.find([str(tmp_path)], [".src"]) == [packed]
    assert example_files.find([str(tmp_path)], [".x"]) == [packed, reference]
    assert example_files.find([reference], [".src"]) == [reference]


def test_files_must_be_there(tmp_path):
    for path in (tmp_path, tmp_path / "none.txt"):
        with pytest.raises(UserError, match="where there is none"):
            example_files.find([str(path)])


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"PK\x03\x04", "a.txt must be text.*ZIP"),
        ("a.txt.gz", b"\x1f\x8b\x08", "a.txt.gz must be a file that can be"),
    ],
)
def test_a_file_must_be_whole_text(tmp_path, name, content, problem):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=problem):
        with example_files.opened(str(path)) as lines:
            list(lines)


def test_fewer_examples_are_chosen_by_the_seed_in_their_order():
    chosen = [example_files.choose(range(50), 5, seed) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    for one in chosen:
        assert len(set(one)) == 5 and one == sorted(one)
    for count in (0, 50, 60):
        assert example_files.choose(range(50), count, 0) == [*range(50)]
