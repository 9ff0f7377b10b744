import errno
import os
import stat

import pytest

from electra_tf.util import files
from electra_tf.util.errors import UserError


def test_json_comes_back_in_the_order_it_was_written(tmp_path):
    value = {"z": 1, "a": [1.5, None, "ß"]}
    files.write_json(tmp_path / "x.json", value)
    assert list(files.read_json(tmp_path / "x.json").items()) == list(
        value.items()
    )
    text = (tmp_path / "x.json").read_text("utf-8")
    assert text.endswith("}\n")
    assert "ß" in text


def test_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch
):
    path = tmp_path / "x"
    files.atomic_write_text(path, "old")

    def fail(_):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=f"no space left: '{path}'"):
        files.atomic_write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_written_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    files.atomic_write_text(tmp_path / "ours", "x")
    modes = {stat.S_IMODE(os.stat(p).st_mode) for p in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("content", [None, b"{", b"\xff", b"", b"[" * 10**5])
def test_error_names_the_file_that_is_no_json(tmp_path, content):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json must be a JSON file"):
        files.read_json(path)


def test_ensure_writable_makes_the_directory_and_leaves_it_empty(tmp_path):
    directory = tmp_path / "a" / "b"
    files.ensure_writable(directory)
    assert os.listdir(directory) == []


def test_ensure_writable_refuses_a_file_in_the_place_of_the_directory(
    tmp_path,
):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="must be a directory"):
            files.ensure_writable(path)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_ensure_writable_refuses_a_directory_it_cannot_write_to():
    with pytest.raises(UserError, match="written to"):
        files.ensure_writable("/proc/self")


def test_a_directory_goes_again_where_nothing_was_put_in_it(tmp_path):
    path = tmp_path / "new"
    with pytest.raises(ZeroDivisionError), files.used_directory(path):
        assert path.is_dir()
        _ = 1 / 0
    assert not path.exists()
    with files.used_directory(path):
        (path / "file").touch()
    assert (path / "file").exists()


@pytest.mark.parametrize("value", ["[1]", '"x"', "3", "null"])
def test_a_file_of_another_shape_is_named(tmp_path, value):
    path = tmp_path / "x.json"
    path.write_text(value)
    with pytest.raises(UserError, match=r"x\.json must hold a JSON object"):
        files.read_object(path)
    path.write_text('{"a": ' + value + "}")
    with pytest.raises(UserError, match=r"x\.json must be as electra_tf wro"):
        with files.shape_of(path):
            _ = files.read_object(path)["a"]["b"]["c"]
