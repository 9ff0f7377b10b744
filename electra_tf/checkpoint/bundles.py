"""TensorFlow's tensor bundles: named arrays in two files, with checksums.

A bundle has a prefix: `<prefix>.index` says where each array lies in
`<prefix>.data-00000-of-00001`. The original's checkpoints are such bundles,
with graphs and hooks beside them that are never read.
"""

import contextlib
import glob
import os
import pathlib
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import bundle_index
from electra_tf.util.errors import UserError, listed, reason

INDEX = ".index"
DATA = ".data-00000-of-00001"
# What TensorFlow raises where a bundle is missing or damaged.
READ_ERRORS = (tf.errors.OpError, IndexError, ValueError, RuntimeError)

_STEP = re.compile(r".*-(\d+)")


def find(path: str | os.PathLike[str]) -> pathlib.Path:
    """Finds the bundle at a path.

    Args:
      path: a prefix, one of its files, or a directory of bundles of one run,
        whose newest counts.

    Returns:
      The prefix.

    Raises:
      UserError: if there is none, or several that no number orders.
    """
    text = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", os.fspath(path))
    if pathlib.Path(text + INDEX).exists():
        return pathlib.Path(text)
    directory = pathlib.Path(path)
    names = sorted(p.name for p in directory.glob(f"*{INDEX}"))
    prefixes = [name.removesuffix(INDEX) for name in names]
    steps = {int(m[1]): m[0] for p in prefixes if (m := _STEP.fullmatch(p))}
    if len(prefixes) == 1:
        return directory / prefixes[0]
    if steps and len(steps) == len(prefixes):
        return directory / steps[max(steps)]
    received = listed(prefixes) or (
        "no file that ends in .index"
        if directory.is_dir()
        else "nothing at that path"
    )
    raise UserError(
        f"{os.fspath(path)} must be a checkpoint: the common part of the names "
        f"of its files, or a directory with one. Received: {received}."
    )


@contextlib.contextmanager
def opened(
    prefix: str | os.PathLike[str],
) -> Iterator[Any]:
    """Opens a bundle.

    TensorFlow finds a bundle by its prefix as a glob, but opens it by its
    prefix as it stands: where these differ it is reached by links.

    Args:
      prefix: of its files.

    Yields:
      TensorFlow's reader of it.

    Raises:
      READ_ERRORS: if it is missing or damaged.
    """
    prefix = os.path.abspath(prefix)
    index, data = f"{prefix}{INDEX}", glob.glob(f"{glob.escape(prefix)}.data-*")
    if os.path.exists(index):  # else TensorFlow says what there is not
        bundle_index.check(index, sum(map(os.path.getsize, data)))
    if prefix == glob.escape(prefix) and "\\" not in prefix:
        yield tf.train.load_checkpoint(prefix)
        return
    with tempfile.TemporaryDirectory() as directory:
        link = os.path.join(directory, "bundle")
        for path in glob.glob(f"{glob.escape(prefix)}.*"):
            os.symlink(path, link + path.removeprefix(prefix))
        yield tf.train.load_checkpoint(link)


def read(prefix: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Reads all arrays of a bundle.

    Raises:
      UserError: naming the bundle, if it is missing or damaged.
    """
    try:
        with opened(prefix) as reader:
            names = sorted(reader.get_variable_to_shape_map())
            return {name: np.asarray(reader.get_tensor(name)) for name in names}
    except READ_ERRORS as error:
        raise UserError(
            f"{os.fspath(prefix)} must be a checkpoint that can be read. "
            f"Received: {reason(error)}"
        ) from error


def write(
    prefix: str | os.PathLike[str],
    arrays: Mapping[str, tf.Tensor | np.ndarray],
) -> None:
    """Writes a bundle; a crash may leave a part of it.

    Args:
      prefix: of its files.
      arrays: by their names.
    """
    with tf.device("CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=os.fspath(prefix),
            tensor_names=list(arrays),
            shape_and_slices=[""] * len(arrays),
            tensors=[tf.convert_to_tensor(x) for x in arrays.values()],
        )


def damage(
    prefix: str | os.PathLike[str], names: Collection[str] | None = None
) -> str | None:
    """Reads a bundle in full, which verifies the checksum of each array.

    Args:
      prefix: of its files.
      names: that it must have; None for any.

    Returns:
      Why it cannot be used; None if it can.
    """
    try:
        with opened(prefix) as reader:
            found = reader.get_variable_to_shape_map()
            for name in found:
                reader.get_tensor(name)
    except READ_ERRORS as error:
        return reason(error)
    if names is not None and found.keys() != set(names):
        return f"it has {len(found)} variables, not {len(names)}"
    return None
