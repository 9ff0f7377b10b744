"""One process in a directory at a time."""

import contextlib
import fcntl
import os
import pathlib
import socket

from electra_tf.util.errors import DirectoryInUseError, UserError


class DirectoryLock:
    """Locks a directory against other processes while it is entered.

    A context manager. The lock dies with its process, however that ends: the
    file that a killed one leaves behind keeps nobody out.

    Args:
      directory: that exists.
      name: of the lock file, which names the process inside.
      way_out: what another process may do instead of waiting, for its error.

    Raises:
      DirectoryInUseError: on entering, naming process and host, if another
        one is inside.
      UserError: on entering, if the file cannot be made or locked.
    """

    def __init__(
        self, directory: str | os.PathLike[str], name: str, way_out: str
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
                f"Received: {error}. Make it so, or {self._way_out}."
            ) from error

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # one that stays keeps nobody out
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
            raise DirectoryInUseError(
                f"{self.path.parent} must be free. Received: in use by "
                f"{holder}. Wait until that run ends, stop it, or "
                f"{self._way_out}."
            ) from error

    def _is_current(self) -> bool:
        """Returns whether who had the locked file before left it there."""
        try:
            return os.path.samestat(
                os.fstat(self._file.fileno()), os.stat(self.path)
            )
        except FileNotFoundError:
            return False
