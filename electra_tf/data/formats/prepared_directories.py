"""Where data sets of TensorFlow Datasets are that were prepared before.

Only their directories are opened: nothing is downloaded, and the code that
made them is not needed.
"""

import os
import re
from typing import Any

from electra_tf.util import storage
from electra_tf.util.errors import UserError

_INFO = "dataset_info.json"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def find(name: str, data_dir: str, asked: str) -> str:
    """Finds a data set.

    Args:
      name: "NAME", "NAME/CONFIG" or one of them with /VERSION; by default the
        newest version.
      data_dir: that holds it; "" for that of TensorFlow Datasets.
      asked: the flag and its value, for errors.

    Returns:
      The directory of its files.

    Raises:
      UserError: if it is not there, saying how to prepare it.
    """
    root = data_dir or os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    root = os.path.expanduser(root)
    directory = _newest_version(os.path.join(root, name)) if name else None
    if directory is None:
        raise UserError(
            "A data set must be prepared before it is read; nothing is "
            f"downloaded here. Received: {asked}, of which there is no "
            f"{_INFO} in {os.path.join(root, name)} or a version in it. "
            "Name the directory it is in with --tfds_data_dir, or prepare it: "
            f"{_command(name)} --data_dir={root}"
        )
    return directory


def check_split(directory: str, split: str, asked: str) -> None:
    """Refuses a split that is none of a data set's.

    Args:
      directory: of the data set.
      split: its name, or an expression as "train[:10%]".
      asked: the flag and its value, for errors.

    Raises:
      UserError: saying which there are.
    """
    try:
        split_info(directory, split)
    except (ValueError, KeyError) as error:
        raise UserError(
            f"A split must be one of the data set's. Received: {asked}: {error}"
        ) from error


def split_info(directory: str, split: str) -> Any:  # noqa: ANN401 (tfds' own)
    """Returns what the data set tells of a split: `num_bytes` and others.

    Args:
      directory: of the data set.
      split: its name, or an expression.
    """
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(directory).info.splits[split]


def _command(name: str) -> str:
    """Returns what prepares a data set of the catalogue."""
    parts = [part for part in name.split("/") if not _VERSION.fullmatch(part)]
    return f"python -m tensorflow_datasets build {'/'.join(parts)}"


def _newest_version(directory: str) -> str | None:
    """Returns the directory, or the newest version in it, that has files."""
    if storage.exists(os.path.join(directory, _INFO)):
        return directory
    names = map(os.path.basename, storage.find(directory, ["*"]))
    versions = [
        name
        for name in filter(_VERSION.fullmatch, names)
        if storage.exists(os.path.join(directory, name, _INFO))
    ]
    if not versions:
        return None
    newest = max(versions, key=lambda name: [*map(int, name.split("."))])
    return os.path.join(directory, newest)
