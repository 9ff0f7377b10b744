"""SavedModels that are there in full or not at all."""

import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from electra_tf.util import files

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
    """
    archive = keras.export.ExportArchive()
    for name, function in endpoints.items():
        archive.add_endpoint(name, function, input_signature=list(spec))
    for asset in assets:
        archive.track(asset)
    files.ensure_writable(path.parent)
    with tempfile.TemporaryDirectory(prefix="tmp-", dir=path.parent) as scratch:
        unfinished = pathlib.Path(scratch, "new")
        archive.write_out(unfinished, verbose=False)
        if path.exists():
            path.rename(pathlib.Path(scratch, "old"))
        unfinished.rename(path)
