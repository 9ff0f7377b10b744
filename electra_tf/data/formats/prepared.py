"""Data sets that TensorFlow Datasets prepared before: directories, and text.

Only their directories are opened: nothing is downloaded, and the code that
made them is not needed.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

from electra_tf.data.formats import text_lines
from electra_tf.data.formats.text_lines import Line, Statistics
from electra_tf.util import storage
from electra_tf.util.errors import UserError

PREFIX = "tfds:"
_DEFAULT_SPLIT = "train"
_INFO = "dataset_info.json"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def find(name: str, data_dir: str, asked: str) -> str:
    """Finds the directory of a data set.

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
    """Checks that a data set has a split.

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
    """Returns the metadata of a split: `num_bytes` and others.

    Args:
      directory: of the data set.
      split: its name, or an expression.
    """
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(directory).info.splits[split]


def _command(name: str) -> str:
    """Returns the command that prepares a data set of the catalogue."""
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


def find_source(pattern: str, data_dir: str) -> tuple[str, str]:
    """Finds the data set that a corpus names.

    Args:
      pattern: "tfds:NAME", "tfds:NAME/CONFIG" or one of them with /VERSION,
        and with :SPLIT; by default the newest version and "train".
      data_dir: that holds it; "" for that of TensorFlow Datasets.

    Returns:
      The directory of its files, and the split.

    Raises:
      UserError: if it is not there, or the split is none of its.
    """
    name, _, split = pattern.removeprefix(PREFIX).partition(":")
    split, asked = split or _DEFAULT_SPLIT, f"corpus={pattern!r}"
    directory = find(name, data_dir, asked)
    check_split(directory, split, asked)
    return directory, split


def num_bytes(directory: str, split: str) -> int:
    """Returns the size of a split in bytes, about that of its text.

    Args:
      directory: of the data set.
      split: its name, or an expression as "train[:10%]".
    """
    return split_info(directory, split).num_bytes


def read_texts(
    directory: str, split: str, text_field: str, statistics: Statistics
) -> Iterator[Line]:
    """Reads the texts of a split, in the order of the files.

    Args:
      directory: of the data set.
      split: its name, or an expression.
      text_field: the feature that is the text.
      statistics: counts what is read.

    Yields:
      The lines of a document that are not blank, and None at its end.

    Raises:
      UserError: if the data set has no such text or is damaged.
    """
    import tensorflow as tf
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(directory)
    feature = dict(builder.info.features.items()).get(text_field)
    if not isinstance(feature, tfds.features.Text):
        raise UserError(
            "`text_field` must name a text in the data set. Received: "
            f"text_field={text_field!r}; {directory} has "
            f"{builder.info.features}. Set --text_field."
        )
    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    dataset = builder.as_dataset(split=split, read_config=in_order)
    dataset = dataset.map(lambda example: example[text_field])
    try:
        for text in dataset.as_numpy_iterator():
            yield from text_lines.read_document(text, statistics)
    except tf.errors.OpError as error:
        raise UserError(
            f"The data set in {directory} must be readable. Received: "
            f"{error.message}. Prepare it again."
        ) from error
