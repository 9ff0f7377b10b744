"""Reads texts and records of data sets that TensorFlow Datasets has prepared.

Only their directories are opened: nothing is downloaded, and the code that
made them is not needed.
"""

import os
import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from electra_tf.data.formats import text_lines
from electra_tf.data.formats.rows import Record, received_columns
from electra_tf.data.formats.text_lines import Statistics, TextLine
from electra_tf.util import storage
from electra_tf.util.errors import UserError

_INFO = "dataset_info.json"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def find(name: str, data_dir: str, flag: str) -> str:
    """Finds the directory of a data set."""
    root = data_dir or os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    root = os.path.expanduser(root)
    if ".." in name.split("/") or name.startswith("/"):
        raise UserError(
            "A data set must be named as NAME, NAME/CONFIG or one with "
            f"/VERSION, inside {root}. Received: {flag}. Name the directory "
            "it is in with --tfds_data_dir."
        )
    directory = _newest_version(os.path.join(root, name)) if name else None
    if directory is None:
        parts = [x for x in name.split("/") if not _VERSION.fullmatch(x)]
        raise UserError(
            "A data set must be prepared before it is read; nothing is "
            f"downloaded here. Received: {flag}, of which there is no "
            f"{_INFO} in {os.path.join(root, name)} or a version in it. "
            "Name the directory it is in with --tfds_data_dir, or prepare it: "
            f"python -m tensorflow_datasets build {'/'.join(parts)} "
            f"--data_dir={root}"
        )
    return directory


def has_split(directory: str, split: str) -> bool:
    """Returns whether a data set has a split."""
    try:
        check_split(directory, split, "")
    except UserError:
        return False
    return True


def check_split(directory: str, split: str, flag: str) -> None:
    """Checks that a data set has a split."""
    try:
        _builder(directory).info.splits[split]
    except (ValueError, KeyError) as error:
        raise UserError(
            f"The data set must have the split. Received: {flag}: {error}"
        ) from error


def num_bytes(directory: str, split: str) -> int:
    """Returns the size of a split in bytes, about that of its text."""
    return _builder(directory).info.splits[split].num_bytes


def class_names(directory: str, column: str) -> tuple[str, ...]:
    """Returns the names of the classes of a feature; () if it has no
    classes."""
    import tensorflow_datasets as tfds

    feature = _features(_builder(directory)).get(column)
    if isinstance(feature, tfds.features.Sequence):
        feature = feature.feature
    is_class = isinstance(feature, tfds.features.ClassLabel)
    return tuple(feature.names) if is_class else ()


def read_texts(
    directory: str, split: str, text_field: str, statistics: Statistics
) -> Iterator[TextLine]:
    """Reads the texts of a split, in the order of the files."""
    import tensorflow_datasets as tfds

    builder = _builder(directory)
    if not isinstance(_features(builder).get(text_field), tfds.features.Text):
        raise UserError(
            "`text_field` must name a text in the data set. Received: "
            f"text_field={text_field!r}; {directory} has "
            f"{builder.info.features}. Set --text_field."
        )
    for example in _examples(builder, split, {text_field}):
        yield from text_lines.read_document(example[text_field], statistics)


def read_records(
    directory: str,
    split: str,
    required: Collection[str],
    optional: Collection[str] = (),
    *,
    class_names: bool = True,
) -> Iterator[Record]:
    """Reads the examples of a split, in the order of the files."""
    check_split(directory, split, f"{directory}, split {split!r}")
    builder = _builder(directory)
    features = _features(builder)
    for column in required:
        if column.partition(".")[0] not in features:
            raise UserError(
                f"{directory}: `{column}` must be a feature. "
                f"{received_columns(column, features)}"
            )
    roots = {column.partition(".")[0] for column in (*required, *optional)}
    examples = _examples(builder, split, roots & features.keys())
    for number, example in enumerate(examples, 1):
        place = f"{split}, example {number}"
        try:
            values = {
                name: _value(features[name], value, class_names)
                for name, value in example.items()
            }
        except UnicodeDecodeError:
            yield Record(place, {}, "A row must be UTF-8 text.")
        else:
            yield Record(place, values)


def _builder(directory: str) -> Any:  # noqa: ANN401 (tfds' own)
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(directory)


def _features(builder: Any) -> dict[str, Any]:  # noqa: ANN401
    return dict(builder.info.features.items())


def _examples(
    builder: Any,  # noqa: ANN401
    split: str,
    names: Collection[str],
) -> Iterator[dict[str, Any]]:
    """Yields some features of the examples of a split, in order."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    dataset = builder.as_dataset(split=split, read_config=in_order)
    dataset = dataset.map(lambda example: {k: example[k] for k in names})
    try:
        yield from dataset.as_numpy_iterator()
    except tf.errors.OpError as error:
        raise UserError(
            f"The data set in {builder.data_dir} must be readable. Received: "
            f"{error.message}. Prepare it again."
        ) from error


def _value(feature: Any, value: Any, class_names: bool) -> Any:  # noqa: ANN401
    """Converts a value of a feature of tfds to a JSON value."""
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


def _newest_version(directory: str) -> str | None:
    """Returns the directory of files: this one, or its newest version's."""
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
