"""Reads JSON rows for an analysis: .json with a list of objects, and .jsonl.

Each file may be compressed.
"""

from collections.abc import Callable, Iterator

from electra_tf.analysis.examples import example_files
from electra_tf.analysis.examples.example_files import Example
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.tables import Row

ENDINGS = (".json", *tables.JSON_LINES)
"""Extensions of the files that are read."""


def read(
    config: AnalysisConfig, split: str, parse: Callable[[Row, str], Example]
) -> list[Example]:
    """Reads the objects of the files of a split, in order."""

    def read_file(path: str) -> Iterator[Example]:
        for row in tables.read_rows(path):
            with example_files.BAD_ROWS.at(path, row.place):
                example = parse(row, path)
            yield example

    paths = example_files.find(config, split, ENDINGS)
    return example_files.read(config, paths, read_file)
