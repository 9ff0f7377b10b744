"""Rows of data sets that TensorFlow Datasets prepared before."""

import pathlib
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from electra_tf.data.formats import prepared as prepared_datasets
from electra_tf.finetune.readers.records import Record, received
from electra_tf.util.errors import UserError


def find(name: str, data_dir: str) -> pathlib.Path:
    """Returns the directory of a data set.

    Args:
      name: as of `tfds_name`.
      data_dir: of prepared data sets; "" for the default.

    Raises:
      UserError: if it is not there, saying how to prepare it.
    """
    asked = f"tfds_name={name!r}"
    return pathlib.Path(prepared_datasets.find(name, data_dir, asked))


def has_split(directory: pathlib.Path, split: str) -> bool:
    """Says whether a data set has a split.

    Args:
      directory: of the data set.
      split: its name, or an expression as "train[:10%]".
    """
    try:
        prepared_datasets.split_info(str(directory), split)
    except (ValueError, KeyError):
        return False
    return True


def class_names(directory: pathlib.Path, column: str) -> tuple[str, ...]:
    """Returns the names of the classes of a feature; none if it has none.

    Args:
      directory: of the data set.
      column: the feature: a class, or a list of them.
    """
    import tensorflow_datasets as tfds

    features = tfds.builder_from_directory(str(directory)).info.features
    feature = dict(features.items()).get(column)
    if isinstance(feature, tfds.features.Sequence):
        feature = feature.feature
    is_class = isinstance(feature, tfds.features.ClassLabel)
    return tuple(feature.names) if is_class else ()


def read(
    directory: pathlib.Path,
    split: str,
    required: Collection[str],
    optional: Collection[str] = (),
    *,
    class_names: bool = True,
) -> Iterator[Record]:
    """Reads the examples of a split, in the order of the files.

    Args:
      directory: of the data set.
      split: its name, or an expression.
      required: features that the data set must have.
      optional: others that are read where it has them.
      class_names: whether a class is its name, and not its number.

    Yields:
      Feature -> value as JSON has it; None for a class that is not known.

    Raises:
      UserError: if there is no such split or feature, or the data set is
        damaged.
    """
    import tensorflow as tf
    import tensorflow_datasets as tfds

    asked = f"{directory}, split {split!r}"
    prepared_datasets.check_split(str(directory), split, asked)
    builder = tfds.builder_from_directory(str(directory))
    features = dict(builder.info.features.items())
    for column in required:
        if column.partition(".")[0] not in features:
            raise UserError(
                f"{directory}: `{column}` must be a feature. "
                f"{received(column, features)}"
            )
    roots = {column.partition(".")[0] for column in (*required, *optional)}
    wanted = roots & features.keys()
    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    dataset = builder.as_dataset(split=split, read_config=in_order)
    try:
        for number, example in enumerate(dataset.as_numpy_iterator(), 1):
            place = f"{split}, example {number}"
            try:
                values = {
                    k: _value(features[k], example[k], class_names)
                    for k in wanted
                }
            except UnicodeDecodeError:
                yield Record(place, {}, "A row must be UTF-8 text.")
            else:
                yield Record(place, values)
    except tf.errors.OpError as error:
        raise UserError(
            f"The data set in {directory} must be readable. Received: "
            f"{error.message}. Prepare it again."
        ) from error


def _value(feature: Any, value: Any, class_names: bool) -> Any:  # noqa: ANN401
    """Returns a value of a feature of tfds as JSON has it."""
    import tensorflow_datasets as tfds

    if isinstance(feature, tfds.features.FeaturesDict):
        return {k: _value(f, value[k], class_names) for k, f in feature.items()}
    if isinstance(feature, tfds.features.Sequence):
        inner = feature.feature
        if isinstance(inner, tfds.features.FeaturesDict):
            return {
                k: [_value(f, item, class_names) for item in value[k]]
                for k, f in inner.items()
            }
        return [_value(inner, item, class_names) for item in value]
    if isinstance(feature, tfds.features.ClassLabel):
        name = feature.int2str if class_names else int
        return None if value < 0 else name(int(value))
    return _plain(value)


def _plain(value: Any) -> Any:  # noqa: ANN401 (of NumPy)
    if isinstance(value, bytes):
        return value.decode()
    is_array = isinstance(value, np.ndarray | np.generic)
    return value.tolist() if is_array else value
