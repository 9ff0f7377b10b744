"""Locks that admit one process to a directory at a time."""

import contextlib
import datetime
import fcntl
import logging
import os
import pathlib
import signal
import socket
import threading
import time
import uuid

from electra_tf.util import storage
from electra_tf.util.errors import DirectoryInUseError, UserError

OUTPUT_LOCK = ".lock"
"""Name of the lock of a directory that one command fills."""

_REFRESH_SECONDS = 20.0
_STALE_SECONDS = 90.0
_SETTLE_SECONDS = 2.0
_POLL_SECONDS = 1.0

_logger = logging.getLogger(__name__)


def lock_directory(
    directory: storage.StrPath, name: str, way_out: str
) -> contextlib.AbstractContextManager:
    """Makes the kind of lock that fits a directory, local or in a store."""
    kind = _StoreLock if storage.is_remote(directory) else DirectoryLock
    return kind(directory, name, way_out)


class DirectoryLock:
    """Locks a directory against other processes while it is entered."""

    def __init__(
        self, directory: storage.StrPath, name: str, way_out: str
    ) -> None:
        self.path = pathlib.Path(directory, name)
        self._way_out = way_out

    def __enter__(self) -> None:
        try:
            self._lock()
            while not self._is_current():
                self._file.close()
                self._lock()
            self._file.truncate(0)
            who = f"process {os.getpid()} on {socket.gethostname()}"
            self._file.write(f"{who}\n")
            self._file.flush()
        except OSError as error:
            raise UserError(
                f"{self.path} must be a file that can be written and locked. "
                f"Received: {error}. Change its permissions, or "
                f"{self._way_out}."
            ) from error

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # a file that stays locks nothing
            self.path.unlink()  # before others may lock it
        self._file.close()

    def _lock(self) -> None:
        self._file = self.path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            with self._file:
                self._file.seek(0)
                holder = self._file.read().strip()
            raise _in_use_error(self.path, holder, self._way_out) from error

    def _is_current(self) -> bool:
        """Returns whether the locked file still has its name."""
        try:
            return os.path.samestat(
                os.fstat(self._file.fileno()), os.stat(self.path)
            )
        except FileNotFoundError:
            return False


class _StoreLock:
    """Keeps other processes out of a directory of a store, with a delay."""

    def __init__(
        self, directory: storage.StrPath, name: str, way_out: str
    ) -> None:
        self.path = storage.as_path(directory) / name
        self._way_out = way_out
        self._token = uuid.uuid4().hex
        self._is_released = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> None:
        if (before := self._holder()) is not None:
            self._wait_until_stale(before)
        self._write()
        time.sleep(_SETTLE_SECONDS)
        if not self._is_ours(holder := self._holder()):
            self._refuse(holder)
        self._refresher.start()

    def __exit__(self, *_: object) -> None:
        self._is_released.set()
        self._refresher.join()
        with contextlib.suppress(OSError):  # else it expires by itself
            if self._is_ours(self._holder()):
                storage.remove(self.path)

    def _holder(self) -> str | None:
        """Returns the text of the object; None if there is none."""
        try:
            return storage.read_bytes(self.path).decode(errors="replace")
        except FileNotFoundError:
            return None

    def _is_ours(self, holder: str | None) -> bool:
        return self._token in (holder or "")

    def _write(self) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds")
        who = f"process {os.getpid()} on {socket.gethostname()}"
        text = f"{who}, seen {now}, {self._token} {time.monotonic()}\n"
        storage.write_bytes(os.fspath(self.path), text.encode())

    def _wait_until_stale(self, before: str) -> None:
        """Returns once the object is gone, or was unchanged for too long."""
        _logger.warning(
            "%s names %s. If it does not change within %g s, that process has "
            "ended and this one takes the lock.",
            self.path,
            _holder_name(before),
            _STALE_SECONDS,
        )
        end = time.monotonic() + _STALE_SECONDS
        while time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            if (now := self._holder()) != before:
                if now is None:
                    return
                self._refuse(now)

    def _refuse(self, holder: str | None) -> None:
        raise _in_use_error(self.path, _holder_name(holder), self._way_out)

    def _refresh(self) -> None:
        """Rewrites the object until this process leaves or loses the lock."""
        while not self._is_released.wait(_REFRESH_SECONDS):
            try:
                if self._is_ours(holder := self._holder()):
                    self._write()
                    continue
            except OSError as error:
                _logger.warning("The lock was not renewed: %s", error)
                continue
            _logger.error(
                "%s was taken over by %s: this process stops.",
                self.path,
                _holder_name(holder),
            )
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _in_use_error(
    path: storage.Path, holder: str, way_out: str
) -> DirectoryInUseError:
    return DirectoryInUseError(
        f"{path.parent} must be free. Received: in use by {holder}. Wait until "
        f"that run ends, stop it, or {way_out}."
    )


def _holder_name(holder: str | None) -> str:
    """Returns process, host and time without the token."""
    return (holder or "").rpartition(",")[0] or "an unnamed process"
