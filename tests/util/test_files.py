import errno
import os
import stat

import fake_store
import pytest

from electra_tf.util import files
from electra_tf.util.errors import UserError


def test_json_comes_back_in_the_order_it_was_written(tmp_path):
    value = {"z": 1, "a": [1.5, None, "ß"]}
    path = tmp_path / "x.json"
    files.write_json(path, value)
    assert [*files.read_json(path).items()] == [*value.items()]
    text = path.read_text("utf-8")
    assert text.endswith("}\n") and "ß" in text


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


def test_a_kill_leaves_a_whole_file_in_a_store(monkeypatch):
    path = "fake://bucket/x"
    for number in range(1, 9):
        store = fake_store.install(monkeypatch)
        files.atomic_write_text(path, "the old one")
        store.on_step = fake_store.kill_at(store.num_steps + number)
        try:
            files.atomic_write_text(path, "the new one")
            break
        except fake_store.Killed:
            found = {store.files[path], store.files.get("fake://bucket/tmp-x")}
        assert found & {b"the old one", b"the new one"}
    # Three steps write, three copy, one removes.
    assert number == 8 and store.files == {path: b"the new one"}


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


def test_a_directory_is_made_and_left_empty_or_refused(tmp_path):
    files.ensure_writable(tmp_path / "a" / "b")
    assert os.listdir(tmp_path / "a" / "b") == []
    (tmp_path / "file").touch()
    refused = [tmp_path / "file", tmp_path / "file" / "below"]
    for path in refused + ["/proc/self"] * os.path.isdir("/proc/self"):
        with pytest.raises(UserError, match="must be a directory.*written to"):
            files.ensure_writable(path)


def test_a_new_directory_is_removed_if_it_stays_empty(tmp_path):
    path = tmp_path / "new"
    with (
        pytest.raises(ZeroDivisionError),
        files.directory_removed_if_empty(path),
    ):
        assert path.is_dir()
        _ = 1 / 0
    assert not path.exists()
    with files.directory_removed_if_empty(path):
        (path / "file").touch()
    assert (path / "file").exists()


@pytest.mark.parametrize("value", ['"x"', "Infinity", "[]"])
def test_a_value_of_another_kind_is_named(tmp_path, value):
    path = tmp_path / "x.json"
    path.write_text(value)
    with pytest.raises(UserError, match=r"x\.json must have the structure"):
        with files.naming_malformed_file(path):
            int(files.read_json(path))


def test_naming_malformed_file_passes_user_errors_on(tmp_path):
    with (
        pytest.raises(UserError, match="more"),
        files.naming_malformed_file(tmp_path),
    ):
        raise UserError("more")


@pytest.mark.parametrize("value", ["[1]", '"x"', "3", "null"])
def test_json_of_another_structure_is_named(tmp_path, value):
    path = tmp_path / "x.json"
    path.write_text(value)
    with pytest.raises(UserError, match=r"x\.json must hold a JSON object"):
        files.read_object(path)
    path.write_text('{"a": ' + value + "}")
    with pytest.raises(UserError, match=r"x\.json must have the structure"):
        with files.naming_malformed_file(path):
            _ = files.read_object(path)["a"]["b"]["c"]
