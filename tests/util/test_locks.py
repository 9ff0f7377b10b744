"""One process is in a directory at a time, and a dead one is not in it."""

import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

from electra_tf.util.errors import DirectoryInUseError, UserError
from electra_tf.util.locks import DirectoryLock

_CHILD = """
import sys, time
from electra_tf.util.locks import DirectoryLock

with DirectoryLock(sys.argv[1], "lock", "go elsewhere"):
    print("inside", flush=True)
    time.sleep(600)
"""


def lock(directory):
    return DirectoryLock(directory, "lock", "go elsewhere")


def enter(directory):
    with lock(directory):
        pass


def test_a_second_one_is_kept_out_and_told_by_whom(tmp_path):
    with lock(tmp_path):
        with pytest.raises(DirectoryInUseError, match="go elsewhere") as error:
            enter(tmp_path)
    assert f"process {os.getpid()} on {os.uname().nodename}" in str(error.value)
    assert not list(tmp_path.iterdir())
    enter(tmp_path)


def test_a_killed_one_keeps_nobody_out(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, tmp_path], stdout=subprocess.PIPE
    )
    child.stdout.readline()
    with pytest.raises(DirectoryInUseError, match=f"process {child.pid} on"):
        enter(tmp_path)
    child.kill()
    child.wait()
    assert (tmp_path / "lock").exists()
    with lock(tmp_path):
        assert f"process {os.getpid()}" in (tmp_path / "lock").read_text()


def test_a_file_that_was_removed_meanwhile_locks_nobody(tmp_path, monkeypatch):
    opened = []
    original = pathlib.Path.open

    def open_removed(path, *args, **kwargs):
        file = original(path, *args, **kwargs)
        if not opened:
            path.unlink()  # as who leaves does, between opening and locking
        opened.append(file)
        return file

    monkeypatch.setattr(pathlib.Path, "open", open_removed)
    with lock(tmp_path):
        assert len(opened) == 2
        with pytest.raises(DirectoryInUseError):
            enter(tmp_path)


def test_a_file_that_cannot_be_removed_hides_no_result(tmp_path, monkeypatch):
    def refuse(path, missing_ok=False):
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "unlink", refuse)
        enter(tmp_path)
        with pytest.raises(ZeroDivisionError):
            with lock(tmp_path):
                raise ZeroDivisionError
    assert (tmp_path / "lock").exists()
    enter(tmp_path)


def test_a_file_that_cannot_be_locked_is_named(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UserError, match="lock must be .*No locks.*elsewhere"):
        enter(tmp_path)
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").mkdir()
    with pytest.raises(UserError, match="lock must be a file"):
        enter(tmp_path)
