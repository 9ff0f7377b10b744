"""SavedModels that are there in full or not at all."""

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from electra_tf.util import files
from electra_tf.util.locks import DirectoryLock

_LOCK = ".lock"
_SCRATCH = "tmp-"
_NEW, _OLD = "new", "old"

Outputs = dict[str, tf.Tensor]
Endpoints = Mapping[str, Callable[..., Outputs]]
"""Name of a signature -> what it computes."""


def write(
    path: pathlib.Path,
    endpoints: Endpoints,
    spec: Sequence[tf.TensorSpec],
    assets: Sequence[tf.Module] = (),
) -> None:
    """Writes a SavedModel, then moves it to where an older one may be.

    Args:
      path: of its directory.
      endpoints: its signatures, of which "serving_default" is one.
      spec: of the arguments of each.
      assets: what they need beside their graphs.

    Raises:
      UserError: if it cannot be written.
      DirectoryInUseError: if another process writes there.
    """
    archive = keras.export.ExportArchive()
    for name, function in endpoints.items():
        archive.add_endpoint(name, function, input_signature=list(spec))
    for asset in assets:
        archive.track(asset)
    directory = path.parent
    files.ensure_writable(directory)
    with (
        DirectoryLock(directory, _LOCK, "export to another directory"),
        _scratch(directory) as scratch,
    ):
        archive.write_out(scratch / _NEW, verbose=False)
        _replace(path, scratch)


@contextlib.contextmanager
def _scratch(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes a directory to write in; removes those that dead runs left."""
    for left in directory.glob(f"{_SCRATCH}*"):
        if left.is_dir() and {p.name for p in left.iterdir()} <= {_NEW, _OLD}:
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=directory) as path:
        yield pathlib.Path(path)


def _replace(path: pathlib.Path, scratch: pathlib.Path) -> None:
    """Moves the new one to its place; if that fails, the old one stays."""
    old = scratch / _OLD
    try:
        if path.exists():
            path.rename(old)
        (scratch / _NEW).rename(path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
