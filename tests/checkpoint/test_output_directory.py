"""A directory of checkpoints holds all of its files, or none."""

import functools
import os
import shutil

import fake_store
import pytest

from electra_tf.checkpoint import output_directory
from electra_tf.util import locks, storage
from electra_tf.util.errors import DirectoryInUseError, UserError

_STORE = "fake://bucket/out"


def _fill(directory):
    with output_directory.opened(directory) as root:
        (root / "part").mkdir()
        (root / "part/weights").write_text("w")
        yield
        (root / "README.md").write_text("card")


def _kill(filling):
    """Ends a process that writes without anything being cleaned up."""
    if not (pid := os.fork()):
        next(filling)
        os._exit(9)
    os.waitpid(pid, 0)


def _names(directory):
    return sorted(os.listdir(directory))


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_leaves_no_file(tmp_path, error):
    filling = _fill(tmp_path / "out")
    next(filling)
    with pytest.raises(error):
        filling.throw(error)
    assert _names(tmp_path) == []


def test_what_a_killed_process_left_is_replaced(tmp_path):
    _kill(_fill(tmp_path))
    assert output_directory._MARK in _names(tmp_path)
    (tmp_path / "part/other").write_text("of another format")
    assert [*_fill(tmp_path)] == [None]
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / f"tmp-{output_directory._MARK}-7").write_text("The")
    assert [*_fill(tmp_path / "early")] == [None]
    shutil.rmtree(tmp_path / "early")
    assert _names(tmp_path) == ["README.md", "part"]
    assert _names(tmp_path / "part") == ["weights"]


def test_a_directory_with_files_is_refused_and_left(tmp_path):
    for directory in ("whole", "foreign", "marked"):
        (tmp_path / directory).mkdir()
    assert [*_fill(tmp_path / "whole")] == [None]
    (tmp_path / "foreign/.hidden").write_text("x")
    (tmp_path / "marked" / output_directory._MARK).write_text("my own")
    (tmp_path / "file").write_text("x")
    for name in ("whole", "foreign", "marked", "file"):
        with pytest.raises(UserError, match="a new or an empty directory"):
            next(_fill(tmp_path / name))
    assert _names(tmp_path / "whole") == ["README.md", "part"]
    assert _names(tmp_path / "foreign") == [".hidden"]
    assert _names(tmp_path / "marked") == [output_directory._MARK]


def test_a_directory_that_another_process_fills_is_refused(tmp_path):
    filling = _fill(tmp_path)
    next(filling)
    with pytest.raises(DirectoryInUseError, match="give another directory"):
        next(_fill(tmp_path))
    assert [*filling] == []
    assert _names(tmp_path) == ["README.md", "part"]


def test_what_a_killed_process_left_in_a_store_is_replaced(monkeypatch):
    for name in ("SETTLE", "STALE"):
        monkeypatch.setattr(locks, f"_{name}_SECONDS", 0.0)
    whole = f"{_STORE}/weights"
    for number in range(5, 99):  # after four that prove it can be written to
        store = fake_store.install(monkeypatch)
        store.on_step = functools.partial(_kill_from, number)
        try:
            _write_to_store()
            break
        except fake_store.Killed:
            store.on_step = lambda _: None
        if {*store.files} - {f"{_STORE}/.lock"} == {whole}:
            continue  # it was complete
        _write_to_store()
        assert {*store.files} == {whole}
    assert number > 15


def _kill_from(number, step):
    """Ends the process at a step; what it cleans up then fails, too."""
    if step >= number:
        raise fake_store.Killed


def _write_to_store():
    with output_directory.opened(_STORE) as root:
        storage.write_bytes(f"{root}/weights", b"w")
