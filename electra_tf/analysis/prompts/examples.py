"""Labelled examples of .tsv, .csv and .jsonl files, for prompts."""

from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.analysis.examples import files as example_files
from electra_tf.analysis.prompts.templates import Prompts
from electra_tf.config.columns import ColumnsConfig
from electra_tf.data.formats import contents, tables
from electra_tf.data.formats.rows import BadRowError, Record
from electra_tf.data.formats.tables import Table
from electra_tf.util.errors import UserError


class Example(NamedTuple):
    """A text, or several, and its class.

    Attributes:
      texts: column -> text.
      label: one of those that have a label word.
    """

    texts: dict[str, str]
    label: str


def read(
    paths: Sequence[str],
    prompts: Prompts,
    *,
    max_examples: int = 0,
    seed: int = 0,
) -> list[Example]:
    """Reads the examples of files.

    Args:
      paths: of files and directories.
      prompts: name the columns and the classes.
      max_examples: of each file, chosen by the seed; 0 for all.
      seed: of the choice.

    Raises:
      UserError: naming file and line of what cannot be read.
    """
    found: list[Example] = []
    for path in example_files.find(paths):
        examples = _read_file(path, prompts)
        found += example_files.choose(examples, max_examples, seed)
    return found


def _read_file(path: str, prompts: Prompts) -> list[Example]:
    required = (*prompts.columns, prompts.label_column)
    found: list[Example] = []
    with example_files.opened(path) as lines:
        table = Table(
            path,
            lines,
            contents.ending(path),
            ColumnsConfig(),
            no_header="Name the columns of --templates there.",
        )
        for record in tables.read(table, required):
            with example_files.at(path, record.place):
                found.append(_example(record, prompts))
    if not found:
        raise UserError(f"{path} must hold examples. Received: none.")
    return found


def _example(record: Record, prompts: Prompts) -> Example:
    texts = {name: record.text(name) for name in prompts.columns}
    label = record.label(prompts.label_column)
    if label not in prompts.label_words:
        raise BadRowError(
            f"{prompts.label_column!r} must be a class that has a label word: "
            f"{', '.join(prompts.label_words)}. Received: {label!r}."
        )
    return Example(texts, label)
