"""A SavedModel is there in full, and nothing beside it."""

import pathlib

import pytest

from electra_tf.serving import saved_models
from electra_tf.util.errors import DirectoryInUseError
from electra_tf.util.locks import DirectoryLock


class _Archive:
    """Stands in for Keras' archive: writes one file, or is interrupted."""

    content = "new"

    def add_endpoint(self, *args, **kwargs):
        pass

    def write_out(self, path, verbose):
        path.mkdir()
        (path / "saved_model.pb").write_text(self.content)
        if not self.content:
            raise KeyboardInterrupt


def _write(path, monkeypatch, content="new"):
    monkeypatch.setattr(_Archive, "content", content)
    monkeypatch.setattr(saved_models.keras.export, "ExportArchive", _Archive)
    saved_models.write(path, {"serving_default": len}, [])


def _names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_an_interrupted_export_leaves_the_older_one_alone(
    tmp_path, monkeypatch
):
    _write(tmp_path / "1", monkeypatch, "old")
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / "1", monkeypatch, "")
    assert _names(tmp_path) == ["1"]
    assert (tmp_path / "1/saved_model.pb").read_text() == "old"


def test_what_a_killed_export_left_is_swept(tmp_path, monkeypatch):
    for name in ("tmp-a/new/variables", "tmp-b", "tmp-mine/text", "2"):
        (tmp_path / name).mkdir(parents=True)
    _write(tmp_path / "1", monkeypatch)
    assert _names(tmp_path) == ["1", "2", "tmp-mine"]


def test_another_export_at_work_is_not_swept(tmp_path, monkeypatch):
    (tmp_path / "tmp-a/new").mkdir(parents=True)
    with DirectoryLock(tmp_path, ".lock", "wait"):
        with pytest.raises(DirectoryInUseError, match="another directory"):
            _write(tmp_path / "1", monkeypatch)
    assert _names(tmp_path) == ["tmp-a"]


def test_a_move_that_fails_puts_the_older_one_back(tmp_path, monkeypatch):
    _write(tmp_path / "1", monkeypatch, "old")
    rename = pathlib.Path.rename

    def fail(path, target):
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", fail)
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / "1", monkeypatch)
    assert _names(tmp_path) == ["1"]
    assert (tmp_path / "1/saved_model.pb").read_text() == "old"
