"""Labelled examples of .tsv, .csv and .jsonl files, for prompts."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

from electra_tf.analysis.examples import example_files
from electra_tf.analysis.prompts.templates import Prompts
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError, Row


class LabelledExample(NamedTuple):
    """A labelled example."""

    texts: dict[str, str]
    label: str


def read(
    config: AnalysisConfig, split: str, prompts: Prompts
) -> list[LabelledExample]:
    """Reads the examples of a split."""
    paths = example_files.find(config, split)
    of_file = functools.partial(read_file, prompts)
    return example_files.read(config, paths, of_file)


def read_file(prompts: Prompts, path: str) -> Iterator[LabelledExample]:
    """Yields the examples of a file."""
    required = (*prompts.columns, prompts.label_column)
    for record in tables.read_rows(path, required):
        with example_files.BAD_ROWS.at(path, record.place):
            example = _example(record, prompts)
        yield example


def _example(record: Row, prompts: Prompts) -> LabelledExample:
    texts = {name: record.text(name) for name in prompts.columns}
    label = record.label(prompts.label_column)
    if label not in prompts.label_words:
        raise BadRowError(
            f"{prompts.label_column!r} must be a class that has a label word: "
            f"{', '.join(prompts.label_words)}. Received: {label!r}."
        )
    return LabelledExample(texts, label)
