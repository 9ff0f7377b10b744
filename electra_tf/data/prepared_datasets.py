"""Data sets that TensorFlow Datasets has prepared; nothing is downloaded."""

import functools
import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from electra_tf.data.tables import Row
from electra_tf.util.errors import UserError


def find_data_set(name: str) -> str:
    """Returns the directory of a data set: its newest or named version."""
    from tensorflow_datasets.core import read_only_builder

    name = re.sub(r"/(\d+\.\d+\.\d+)$", r":\1", name)
    return str(read_only_builder.builder_from_files(name).data_path)


@functools.lru_cache
def open_data_set(directory: str) -> Any:  # noqa: ANN401 (of tfds)
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(directory)


def has_split(directory: str, split: str) -> bool:
    try:
        return bool(open_data_set(directory).info.splits[split])
    except (ValueError, KeyError):
        return False


def class_names(directory: str, column: str) -> tuple[str, ...]:
    """Returns the names of the classes of a feature; () if it has none."""
    feature = dict(open_data_set(directory).info.features).get(column)
    feature = getattr(feature, "feature", feature)  # of a sequence
    return tuple(getattr(feature, "names", ()))


def read_rows(
    directory: str,
    split: str,
    required: Collection[str],
    optional: Collection[str] = (),
    *,
    uses_class_names: bool = True,
) -> Iterator[Row]:
    """Reads the examples of a split, in the order of the files."""
    import tensorflow_datasets as tfds

    builder = open_data_set(directory)
    features = builder.info.features
    names = {column.partition(".")[0] for column in required}
    if missing := names - features.keys():
        raise UserError(f"{directory} has no {missing}: {features}.")
    names |= {column.partition(".")[0] for column in optional}
    names &= features.keys()
    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    dataset = builder.as_dataset(split=split, read_config=in_order)
    dataset = dataset.map(lambda example: {k: example[k] for k in names})
    for number, example in enumerate(dataset.as_numpy_iterator(), 1):
        values = {
            name: _plain(features[name], value, uses_class_names)
            for name, value in example.items()
        }
        yield Row(values, f"{split}, example {number}")


def _plain(feature: Any, value: Any, uses_names: bool) -> Any:  # noqa: ANN401
    """Converts a value of a feature of tfds to a value of JSON."""
    if isinstance(value, dict):
        return {k: _plain(feature[k], v, uses_names) for k, v in value.items()}
    if np.ndim(value):
        inner = getattr(feature, "feature", feature)
        return [_plain(inner, x, uses_names) for x in value]
    if hasattr(feature, "int2str"):  # a label
        if value < 0:
            return None
        return feature.int2str(value) if uses_names else int(value)
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value
