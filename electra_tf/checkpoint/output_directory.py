"""A new directory of checkpoints that holds all of its files or none."""

import contextlib
import os
from collections.abc import Iterator

from electra_tf.util import files, storage
from electra_tf.util.errors import UserError
from electra_tf.util.locks import OUTPUT_LOCK, lock_directory

_MARK = "electra_tf_unfinished"
_NOTE = """\
The files here are not complete. The next command that writes to this directory
removes all of them first.
"""


@contextlib.contextmanager
def opened(directory: storage.StrPath) -> Iterator[storage.Path]:
    """Makes a directory and locks it; if the block fails, empties it."""
    root = storage.as_path(directory)
    _check_is_new(root)
    lock = lock_directory(root, OUTPUT_LOCK, "give another directory")
    with files.directory_removed_if_empty(root), lock:
        _check_is_new(root)  # another process may have filled it meanwhile
        _empty(root)
        try:
            files.atomic_write_text(root / _MARK, _NOTE)
            yield root
            storage.remove(root / _MARK)
        except BaseException:
            _empty(root)
            raise


def _check_is_new(root: storage.Path) -> None:
    names = _names(root)
    is_file = storage.exists(root) and not storage.is_directory(root)
    if is_file or (names and not _was_killed(root, names)):
        raise UserError(
            "The output must be a new or an empty directory. Received: "
            f"{os.fspath(root)}, which is neither. Give another one."
        )


def _was_killed(root: storage.Path, names: list[str]) -> bool:
    """Returns whether the files are those of a process that was killed."""
    if _MARK in names:  # in a store perhaps a part of it
        return _NOTE.encode().startswith(storage.read_bytes(root / _MARK))
    # The mark, the first file, may still have its temporary name.
    return len(names) == 1 and names[0].startswith(f"tmp-{_MARK}")


def _empty(root: storage.Path) -> None:
    """Removes everything but the lock, the mark last."""
    for name in sorted(_names(root), key=lambda name: _MARK in name):
        storage.remove(root / name)


def _names(root: storage.Path) -> list[str]:
    """Returns the names in a directory, except the lock's; [] if missing."""
    names = map(os.path.basename, storage.find(root, ["*"]))
    return [name for name in names if name != OUTPUT_LOCK]
