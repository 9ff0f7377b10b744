"""The file of a split, or the split of a prepared data set."""

import io
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from electra_tf.config.columns import ColumnsConfig, FilesConfig
from electra_tf.data.formats import compression, contents, prepared, tables
from electra_tf.data.formats.rows import Line, Record, numbered
from electra_tf.data.formats.tables import Layout, TableFile
from electra_tf.util.errors import UserError

_DEV_WAY_OUT = (
    "Set --dev_file; or --dev_fraction=0.1 to hold out a tenth of the training "
    "rows; or --nodo_eval --checkpoint=last to do without."
)


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
        return "" if self.split else contents.ending(self.path.name)


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
        found = prepared.find(name, files.tfds_data_dir, f"tfds_name={name!r}")
        return Source(pathlib.Path(found), columns.split_of_data_set(split))
    paths = [
        directory / f"{split}{ending}{packed}"
        for ending in endings
        for packed in ("", *compression.ENDINGS)
    ]
    there = [path for path in paths if path.exists()]
    if len(there) > 1 and columns.is_custom:
        raise UserError(
            f"The {split} rows of {directory.name} must be in one file. "
            f"Received: {' and '.join(map(str, there))}. Select one "
            f"with --{split}_file."
        )
    return Source([*there, paths[0]][0])


def missing_split_message(
    source: Source, split: str, endings: Sequence[str]
) -> str:
    """Says what a custom task lacks and which flags supply it."""
    received = f"no {source}"
    way_out = _DEV_WAY_OUT if split == "dev" else f"Set --{split}_file."
    if source.split:
        way_out = f"Set --tfds_splits={split}=... Or: {way_out}"
    else:
        received += f", nor one that ends in {', '.join(endings[1:])}"
    return f"Received: {received}. {way_out}"


def read(
    source: Source,
    columns: ColumnsConfig,
    required: Collection[str] = (),
    optional: Collection[str] = (),
    *,
    layout: Layout | None = None,
    content: bytes = b"",
) -> Iterator[Record]:
    """Reads the rows of a split, including bad ones."""
    if source.split:
        directory = str(source.path)
        return prepared.read_records(
            directory, source.split, required, optional
        )
    lines = io.BytesIO(content or read_bytes(source.path))
    table = TableFile(str(source), lines, source.ending, columns, layout)
    return tables.read(table, required)


def read_lines(path: pathlib.Path) -> list[Line]:
    """Reads the lines of a text file."""
    return list(numbered(io.BytesIO(read_bytes(path))))


def read_bytes(path: pathlib.Path) -> bytes:
    """Reads a text file, decompressed and without a byte-order mark."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} must be a file of the task. Received: {error.strerror}. "
            "Set --finetuning_data_dir to the directory that holds a "
            "directory for each task."
        ) from error
    with contents.file_errors(str(path)):
        content = contents.open_text(path.name, io.BytesIO(packed)).read()
    if not content.strip():
        raise UserError(f"{path} must hold examples. Received: an empty file.")
    return content
