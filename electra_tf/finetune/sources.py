"""The file of a split, or the split of a prepared data set."""

import pathlib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from electra_tf.config.columns import ColumnsConfig, FilesConfig
from electra_tf.data import prepared, tables
from electra_tf.data.tables import Layout, Row
from electra_tf.util.errors import UserError


class Source(NamedTuple):
    """A file, or a split of a prepared data set."""

    path: pathlib.Path
    split: str = ""

    def __str__(self) -> str:
        return f"{self.path}{self.split and ', split ' + self.split}"

    @property
    def exists(self) -> bool:
        """Whether the file or the split exists."""
        if self.split:
            return prepared.has_split(str(self.path), self.split)
        return self.path.exists()

    @property
    def resolved(self) -> "Source":
        """The source with its real path, to compare it with others."""
        return self._replace(path=self.path.resolve())

    @property
    def ending(self) -> str:
        """The ending of the file's name; "" for a data set."""
        return "" if self.split else tables.file_ending(self.path)


def find(
    columns: ColumnsConfig,
    files: FilesConfig,
    directory: pathlib.Path,
    split: str,
    endings: Sequence[str],
) -> Source:
    """Finds the source of a split, whether it exists or not."""
    given = {
        "train": columns.train_file,
        "dev": columns.dev_file,
        "test": files.test_file,
    }.get(split)
    if given and columns.is_custom:
        return Source(pathlib.Path(given))
    if columns.tfds_name:
        name = columns.tfds_name
        found = prepared.find_data_set(name, files.tfds_data_dir)
        return Source(pathlib.Path(found), columns.split_of_data_set(split))
    paths = [
        directory / f"{split}{ending}{packed}"
        for ending in endings
        for packed in ("", *tables.COMPRESSIONS)
    ]
    there = [path for path in paths if path.exists()]
    if len(there) > 1 and columns.is_custom:
        raise UserError(
            f"Select one of {', '.join(map(str, there))} by --{split}_file."
        )
    return Source([*there, paths[0]][0])


def read(
    source: Source,
    columns: ColumnsConfig,
    required: Collection[str] = (),
    optional: Collection[str] = (),
    *,
    layout: Layout | None = None,
) -> Iterable[Row]:
    """Reads the rows of a split, including bad ones."""
    if source.split:
        directory = str(source.path)
        return prepared.read_rows(directory, source.split, required, optional)
    return tables.read_rows(source.path, required, columns, layout=layout)
