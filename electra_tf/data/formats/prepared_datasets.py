"""Data sets of TensorFlow Datasets as text."""

from collections.abc import Iterator

from electra_tf.data.formats import prepared_directories, text_lines
from electra_tf.data.formats.text_lines import Line, Statistics
from electra_tf.util.errors import UserError

PREFIX = "tfds:"
_DEFAULT_SPLIT = "train"


def find(pattern: str, data_dir: str) -> tuple[str, str]:
    """Finds a data set.

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
    directory = prepared_directories.find(name, data_dir, asked)
    prepared_directories.check_split(directory, split, asked)
    return directory, split


def num_bytes(directory: str, split: str) -> int:
    """Returns about how many bytes of text a split holds.

    Args:
      directory: of the data set.
      split: its name, or an expression as "train[:10%]".
    """
    return prepared_directories.split_info(directory, split).num_bytes


def read(
    directory: str, split: str, text_field: str, statistics: Statistics
) -> Iterator[Line]:
    """Reads documents, in the order of the files.

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
