"""An in-memory store with injected faults, in place of `tf.io.gfile`.

Its paths are "fake://...". Each change takes steps: a written file is first
empty, then half, then whole; a rename copies in the same steps, then removes
the source. At any step a test can kill the process or raise an error. Listings
show the state of `lag` steps ago.
"""

import collections
import types

import tensorflow as tf

from electra_tf.util import storage, store_requests


class Killed(BaseException):
    """Stands for the death of the process."""


class FakeStore:
    """The functions of `tf.io.gfile` that `storage` uses.

    Args:
      lag: steps after which a listing shows a change.

    Attributes:
      files: path -> content.
      num_steps: number of steps so far.
      on_step: called after each step with its number, from 1.
      on_read: called before each read with its number, from 1.
    """

    def __init__(self, lag=0):
        self.files = {}
        self.num_steps = self.num_reads = 0
        self.on_step = self.on_read = lambda number: None
        self._listed = collections.deque([set()] * (lag + 1), lag + 1)

    def _step(self):
        self.num_steps += 1
        self._listed.append(set(self.files))
        self.on_step(self.num_steps)

    def write(self, path, content):
        for piece in (b"", content[: len(content) // 2], content):
            self.files[path] = piece
            self._step()

    def read(self, path):
        self.num_reads += 1
        self.on_read(self.num_reads)
        return self._content(path)

    def _content(self, path):
        if str(path) not in self.files:
            raise tf.errors.NotFoundError(None, None, f"{path} not found")
        return self.files[str(path)]

    def GFile(self, path, mode):
        return (_Writer if mode == "wb" else _Reader)(self, path)

    def exists(self, path):
        return str(path) in self.files or self.isdir(path)

    def isdir(self, path):
        return any(name.startswith(f"{path}/") for name in self.files)

    def listdir(self, path):
        below = (x for x in self._listed[0] if x.startswith(f"{path}/"))
        return list({x[len(path) + 1 :].partition("/")[0] for x in below})

    def makedirs(self, path):
        pass  # an object store has no directories

    def rename(self, path, to, overwrite):
        assert overwrite
        self.write(to, self._content(path))
        self.remove(path)

    def remove(self, path):
        self._content(path)
        del self.files[str(path)]
        self._step()

    def rmtree(self, path):
        for name in [x for x in self.files if x.startswith(f"{path}/")]:
            self.remove(name)

    def stat(self, path):
        length = len(self._content(path))
        return types.SimpleNamespace(length=length, mtime_nsec=0)


class _Writer:
    """A file that is written on close, even after an error."""

    def __init__(self, store, path):
        self._store, self._path, self._pieces = store, path, []

    def write(self, piece):
        self._pieces.append(bytes(piece))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._store.write(self._path, b"".join(self._pieces))


class _Reader:
    def __init__(self, store, path):
        self._store, self._path, self._position = store, path, 0

    def seek(self, offset, whence=0):
        size = len(self._store._content(self._path))
        self._position = offset + (0, self._position, size)[whence]

    def tell(self):
        return self._position

    def read(self, size):
        content = self._store.read(self._path)[self._position :][:size]
        self._position += len(content)
        return content

    def close(self):
        pass


def install(monkeypatch, lag=0):
    """Replaces every store by a fake one, and retries without waits."""
    store = FakeStore(lag)
    monkeypatch.setattr(storage, "_gfile", lambda: store)
    waits = (0.0,) * len(store_requests._RETRY_DELAYS)
    monkeypatch.setattr(store_requests, "_RETRY_DELAYS", waits)
    return store


def kill_at(number):
    """Returns a callback that raises `Killed` after a step."""

    def on_step(step):
        if step == number:
            raise Killed

    return on_step


def fail_at(numbers, error=tf.errors.UnavailableError):
    """Returns a callback that raises an error at some steps or reads."""

    def on_step(step):
        if step in numbers:
            raise error(None, None, "the store is away")

    return on_step
