"""Sentences of tagged words.

The file extension determines the kind of the tags:

    .conllu  Universal Dependencies: FORM and UPOS, the part of speech
    others   as in CoNLL-2000: word, part of speech and chunk, in columns
             separated by spaces or tabs; the third column is used, or only
             the first where tags are not needed
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from electra_tf.analysis.examples import example_files
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError, Word, WordColumns
from electra_tf.util.errors import shorten_repr

PART_OF_SPEECH = "part of speech"
CHUNK = "chunk"
_CHUNKS = WordColumns(word=0, tag=2)


class Sentence(NamedTuple):
    """A sentence of tagged words."""

    task: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


def read(config: AnalysisConfig, split: str) -> list[Sentence]:
    """Reads the sentences of a split."""
    paths = example_files.find(config, split)
    return example_files.read(config, paths, _read_file)


def read_words(config: AnalysisConfig, split: str) -> list[tuple[str, ...]]:
    """Reads the words of the sentences of a split, which need no tags."""
    paths = example_files.find(config, split)
    return example_files.read(config, paths, _read_words)


def _read_file(path: str) -> Iterator[Sentence]:
    columns = _columns(path)
    task = PART_OF_SPEECH if columns.is_conllu else CHUNK
    for sentence in words(path, columns):
        _, texts, tags = zip(*sentence, strict=True)
        yield Sentence(task, texts, tags)


def _read_words(path: str) -> Iterator[tuple[str, ...]]:
    for sentence in words(path, _columns(path), needs_tags=False):
        yield tuple(word.text for word in sentence)


def _columns(path: str) -> WordColumns:
    return tables.CONLLU if tables.file_ending(path) == ".conllu" else _CHUNKS


def words(
    path: str,
    columns: WordColumns,
    tags: Collection[str] = (),
    *,
    needs_tags: bool = True,
) -> Iterator[tuple[Word, ...]]:
    """Yields the words of each sentence of a file."""

    def check(word: Word) -> None:
        if not needs_tags:
            return
        if word.tag is None or tags and word.tag not in tags:
            column = columns.tag + 1 or "last"
            expected = f"one of {' '.join(tags)}" if tags else "given"
            raise BadRowError(
                f"The tag, column {column} of a row, must be {expected}. "
                f"Received: {shorten_repr(word.tag)} for "
                f"{shorten_repr(word.text)}."
            )

    return tables.read_sentences(path, columns, example_files.BAD_ROWS, check)
