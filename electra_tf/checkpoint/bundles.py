"""TensorFlow's tensor bundles: named arrays in two files, with checksums.

A bundle is named by a prefix: `<prefix>.index` has the offset of each array in
`<prefix>.data-00000-of-00001`. The original's checkpoints are such bundles; the
graphs beside them are never read.
"""

import contextlib
import glob
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.util import files, storage
from electra_tf.util.errors import UserError, listed, reason
from electra_tf.util.store_requests import StoreError

INDEX = ".index"
DATA = ".data-00000-of-00001"
# Errors that TensorFlow raises if a bundle is missing or damaged.
READ_ERRORS = (tf.errors.OpError, IndexError, ValueError, RuntimeError)

_STEP = re.compile(r".*-(\d+)")


def find(path: storage.StrPath) -> storage.Path:
    """Returns the prefix of the bundle at a path."""
    text = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", os.fspath(path))
    if storage.exists(text + INDEX):
        return storage.as_path(text)
    directory = storage.as_path(path)
    found = storage.find(directory, [f"*{INDEX}"])
    names = sorted(map(os.path.basename, found))
    prefixes = [name.removesuffix(INDEX) for name in names]
    steps = {int(m[1]): m[0] for p in prefixes if (m := _STEP.fullmatch(p))}
    if len(prefixes) == 1:
        return directory / prefixes[0]
    if steps and len(steps) == len(prefixes):
        return directory / steps[max(steps)]
    received = listed(prefixes) or "no file that ends in .index"
    if not storage.is_directory(directory):
        is_file = storage.exists(path)
        received = "a file" if is_file else "nothing at that path"
    raise UserError(
        f"{os.fspath(path)} must be a checkpoint: the common prefix of its "
        f"files, or a directory that holds one. Received: {received}."
    )


def split_paths(paths: str) -> list[str]:
    """Splits comma-separated checkpoints; a comma in a path is kept."""
    is_one = storage.exists(paths) or storage.exists(f"{paths}{INDEX}")
    return [paths] if is_one else paths.split(",")


@contextlib.contextmanager
def opened(prefix: storage.StrPath) -> Iterator[Any]:
    """Opens a bundle."""
    is_remote = storage.is_remote(prefix)
    prefix = os.fspath(prefix) if is_remote else os.path.abspath(prefix)
    if not is_remote and prefix == glob.escape(prefix) and "\\" not in prefix:
        yield _open(prefix)
        return
    with tempfile.TemporaryDirectory() as directory:
        local = os.path.join(directory, "bundle")
        if is_remote:
            _download(prefix, local)
        else:
            for path in glob.glob(f"{glob.escape(prefix)}.*"):
                os.symlink(path, local + path.removeprefix(prefix))
        yield _open(local)


def _open(prefix: str) -> Any:  # noqa: ANN401 (a class of TensorFlow's C++)
    """Opens a local bundle."""
    return tf.train.load_checkpoint(prefix)


def _download(prefix: str, to: str) -> None:
    """Copies the existing files of a bundle, even if not listed yet."""
    directory, name = os.path.split(prefix)
    name = glob.escape(name)
    patterns = [f"{name}{INDEX}", f"{name}.data-*"]
    found = storage.find(directory, patterns)
    for path in {prefix + INDEX, prefix + DATA, *found}:
        with contextlib.suppress(FileNotFoundError):
            storage.download(path, to + path.removeprefix(prefix))


def read(prefix: storage.StrPath) -> dict[str, np.ndarray]:
    """Reads all arrays of a bundle."""
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
    prefix: storage.StrPath, arrays: Mapping[str, tf.Tensor | np.ndarray]
) -> None:
    """Writes a bundle; a crash may leave a part of it."""
    with tf.device("CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=os.fspath(prefix),
            tensor_names=list(arrays),
            shape_and_slices=[""] * len(arrays),
            tensors=[tf.convert_to_tensor(x) for x in arrays.values()],
        )


def publish(prefix: str, to: str) -> None:
    """Moves a local bundle to its final prefix, its index last."""
    if storage.is_remote(to):
        for ending in (DATA, INDEX):
            storage.upload(f"{prefix}{ending}", f"{to}{ending}")
        return
    for ending in (DATA, INDEX):
        files.sync(f"{prefix}{ending}")
    for ending in (DATA, INDEX):
        os.replace(f"{prefix}{ending}", f"{to}{ending}")


def find_damage(
    prefix: storage.StrPath, names: Collection[str] | None = None
) -> str | None:
    """Reads a bundle in full, which verifies the checksum of each array."""
    try:
        with opened(prefix) as reader:
            found = reader.get_variable_to_shape_map()
            for name in found:
                reader.get_tensor(name)
    except StoreError:
        raise
    except READ_ERRORS as error:
        return reason(error)
    if names is not None and found.keys() != set(names):
        return f"it has {len(found)} variables, not {len(names)}"
    return None
