"""A lock admits one process at a time; a dead process holds none."""

import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import types
from concurrent import futures

import fake_store
import pytest

from electra_tf.util import locks, storage
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


def test_a_second_lock_is_refused_naming_the_holder(tmp_path):
    with lock(tmp_path):
        with pytest.raises(DirectoryInUseError, match="go elsewhere") as error:
            enter(tmp_path)
    assert f"process {os.getpid()} on {os.uname().nodename}" in str(error.value)
    assert not list(tmp_path.iterdir())
    enter(tmp_path)


@pytest.mark.promise(
    "a lock left by a run that was killed: the next one goes on at once"
)
def test_a_lock_of_a_killed_process_is_taken_over(tmp_path):
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


@pytest.mark.promise(
    "a lock left by a run of another host that is gone: the next one goes on"
)
def test_a_lock_file_left_by_another_host_is_taken_over(tmp_path):
    (tmp_path / "lock").write_text("process 1 on another host\n")
    with lock(tmp_path):
        text = (tmp_path / "lock").read_text()
    assert text == f"process {os.getpid()} on {os.uname().nodename}\n"


def test_a_lock_file_removed_before_locking_is_made_again(
    tmp_path, monkeypatch
):
    opened = []
    original = pathlib.Path.open

    def open_removed(path, *args, **kwargs):
        file = original(path, *args, **kwargs)
        if not opened:
            path.unlink()  # as the last holder may, before it is locked
        opened.append(file)
        return file

    monkeypatch.setattr(pathlib.Path, "open", open_removed)
    with lock(tmp_path):
        assert len(opened) == 2
        with pytest.raises(DirectoryInUseError):
            enter(tmp_path)


def test_a_lock_file_that_cannot_be_removed_hides_no_error(
    tmp_path, monkeypatch
):
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


_STORE = "fake://bucket/run"
_PATH = f"{_STORE}/lock"


@pytest.fixture
def store(monkeypatch):
    """A store of one-step writes and short waits, except for stale locks."""
    fake = fake_store.install(monkeypatch)
    fake.write = fake.files.__setitem__
    for name, seconds in (("REFRESH", 0.1), ("SETTLE", 0.02), ("POLL", 0.02)):
        monkeypatch.setattr(locks, f"_{name}_SECONDS", seconds)
    return fake


def store_lock():
    return locks.lock_directory(_STORE, "lock", "go elsewhere")


def test_a_second_lock_in_a_store_is_refused(store, caplog):
    with store_lock():
        with pytest.raises(DirectoryInUseError, match="go elsewhere") as error:
            with store_lock():
                pass
    host = os.uname().nodename
    assert f"process {os.getpid()} on {host}, seen 20" in str(error.value)
    assert "If it does not change within" in caplog.text
    assert store.files == {}
    with store_lock():
        pass


@pytest.mark.promise(
    "a lock left in a store by a dead run, of this or another host: the next "
    "one waits until it is sure, says so and goes on"
)
def test_a_lock_in_a_store_that_does_not_change_is_taken_over(
    store, monkeypatch
):
    monkeypatch.setattr(locks, "_STALE_SECONDS", 0.4)
    for content in (b"process 1 on another host, seen 2020, a 1\n", b""):
        store.files[_PATH] = content
        start = time.monotonic()
        with store_lock():
            assert time.monotonic() - start >= 0.4
            assert b"process %d" % os.getpid() in store.files[_PATH]


@pytest.mark.promise(
    "the clock of a machine stands still or jumps: a lock in a store is not "
    "taken from a run that lives"
)
def test_a_clock_that_stands_still_loses_no_lock(store, monkeypatch):
    monkeypatch.setattr(locks, "_STALE_SECONDS", 0.4)
    stopped = locks.datetime.datetime(2020, 1, 1)
    clock = types.SimpleNamespace(now=lambda _: stopped)
    broken = types.SimpleNamespace(datetime=clock, UTC=None)
    monkeypatch.setattr(locks, "datetime", broken)
    monkeypatch.setattr(os, "kill", lambda *_: None)  # sent if the lock is lost
    with store_lock():
        with pytest.raises(DirectoryInUseError, match="seen 2020-01-01"):
            with store_lock():
                pass


def test_one_of_two_simultaneous_locks_is_refused(store, monkeypatch):
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.5)
    outcomes = []
    before, after = (threading.Barrier(2, timeout=60) for _ in range(2))

    def enter_at_once(lock):
        write = lock._write

        def write_together():
            lock._write = write
            before.wait()
            write()

        lock._write = write_together
        try:
            with lock:
                outcomes.append("inside")
                after.wait()
        except DirectoryInUseError:
            outcomes.append("refused")
            after.wait()

    with futures.ThreadPoolExecutor() as pool:
        list(pool.map(enter_at_once, [store_lock(), store_lock()]))
    assert sorted(outcomes) == ["inside", "refused"]


def test_a_process_that_lost_its_lock_stops(store, caplog):
    stopped = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        with store_lock():
            storage.write_bytes(_PATH, b"process 1 on host b, seen 2020, a\n")
            assert stopped.wait(10)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "taken over by process 1 on host b, seen 2020: this" in caplog.text
    assert _PATH in store.files, "it belongs to another one"
