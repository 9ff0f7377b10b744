"""Where the rows of a split are: in a file, or in a prepared data set."""

import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.readers import prepared, tables
from electra_tf.finetune.readers.records import Record
from electra_tf.util import compression
from electra_tf.util.errors import UserError


class Source(NamedTuple):
    """Where the rows of a split are.

    Attributes:
      path: of the file, or of the directory of the data set.
      split: of the data set; "" of a file.
    """

    path: pathlib.Path
    split: str = ""

    def __str__(self) -> str:
        return f"{self.path}{self.split and ', split ' + self.split}"

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        if self.split:
            return prepared.has_split(self.path, self.split)
        return self.path.exists()

    @property
    def ending(self) -> str:
        """The ending of the file's name; "" of a data set."""
        return "" if self.split else tables.ending(self.path)


def find(
    config: FinetuningConfig,
    name: str,
    split: str,
    endings: Sequence[str] = tables.ENDINGS,
) -> Source:
    """Finds a split, whether it is there or not.

    Args:
      config: the whole configuration.
      name: of the task.
      split: one of it.
      endings: a file in the task's directory may have.

    Raises:
      UserError: if there is no such data set, or more than one file that it
        might be.
    """
    columns = config.columns
    given = {
        "train": columns.train_file,
        "dev": columns.dev_file,
        "test": config.files.test_file,
    }.get(split)
    if given:
        return Source(pathlib.Path(given).expanduser())
    if columns.tfds_name:
        directory = prepared.find(config)
        return Source(directory, columns.split_of_data_set(split))
    directory = pathlib.Path(config.run.tasks_dir, name)
    paths = [
        directory / f"{split}{ending}{packed}"
        for ending in endings
        for packed in ("", *compression.ENDINGS)
    ]
    there = [path for path in paths if path.exists()]
    if len(there) > 1:
        raise UserError(
            f"The {split} rows of {name} must be in one file. Received: "
            f"{' and '.join(map(str, there))}. Say which with --{split}_file."
        )
    return Source([*there, paths[0]][0])


def read(
    source: Source,
    config: FinetuningConfig,
    required: Collection[str],
    optional: Collection[str] = (),
) -> Iterator[Record]:
    """Reads the rows of a split, bad ones among them.

    Args:
      source: where they are.
      config: the whole configuration.
      required: columns that all rows must have.
      optional: columns that are read where they are there.

    Raises:
      UserError: if the source cannot be read or lacks a column.
    """
    if source.split:
        return prepared.read(source.path, source.split, required, optional)
    return tables.read(source.path, config.columns, required)
