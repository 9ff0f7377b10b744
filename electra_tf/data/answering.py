"""Predictions for rows of text, from Python values or from files.

Memory is constant: one block of rows is read, answered and written at a time.
Answers come in the order of the rows. The formats of files:

  txt    one text per line; or two, with a tab between them, for pairs
  tsv    for a custom task like its training files, read with the same flags;
         for other tasks with columns that the first line names, as in GLUE's
         files, or else with one column for each input and no header
  csv    likewise, with a header
  jsonl  one object per line, with a field for each input of the model
  conll  for a tagger: one word per line and an empty line between sentences,
         as in its training files; conllu likewise
"""

import abc
import contextlib
import functools
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError, BadRows, Layout, Row
from electra_tf.util import console, files
from electra_tf.util.batching import batches
from electra_tf.util.errors import UserError, shorten_repr

BLOCK_SIZE = 1024
"""Items in memory at once; a block is sorted by length into batches."""

Item = str | Sequence[str] | Mapping[str, Any]
"""One item to predict: a text; a sequence of texts, or for a tagger of the
words of one text; or a mapping from the names of inputs, where a dotted name is
a field of a field."""
Inputs = tuple[str | Sequence[str], ...]
"""One value for each input of a model."""
Answer = dict[str, Any]
"""A prediction as JSON values."""
RowContext = Callable[[int], contextlib.AbstractContextManager]
"""Maps the number of a row to the context in which the row is read, which may
suppress a `BadRowError`: the row then has no answer."""
Blocks = Iterator[Sequence[tuple[int, Any]]]
"""Blocks of pairs of a row's number and its answer."""


class InputSource(NamedTuple):
    """Numbered rows to predict, and their parser."""

    name: str
    rows: Iterable[tuple[int, Any]]
    parse: Callable[[Any], Inputs]
    is_live: bool = False


class InputSpec(NamedTuple):
    """The inputs of a model, and the files that may hold them."""

    names: tuple[str, ...]
    takes_words: bool = False
    columns: ColumnsConfig = ColumnsConfig()
    file_names: tuple[str, ...] = ()
    bare_layout: Layout | None = None
    word_files: Mapping[str, tables.WordColumns] = {}


def inputs_of(item: Item, spec: InputSpec) -> Inputs:
    """Returns the inputs of an item, checked."""
    if isinstance(item, Mapping):
        item = [Row(item).value(name) for name in spec.names]
    elif len(spec.names) == 1:
        item = [item]
    if isinstance(item, str) or len(item) != len(spec.names):
        raise BadRowError(
            f"An input has {', '.join(spec.names)}, not {shorten_repr(item)}."
        )
    for value in item:
        is_list = spec.takes_words and isinstance(value, Sequence)
        if not all(isinstance(x, str) for x in (value if is_list else [value])):
            raise BadRowError(f"{shorten_repr(value)} is no text.")
    return tuple(item)


def of_texts(texts: Sequence[str], spec: InputSpec) -> InputSource:
    """Makes a source of a single row."""
    if len(texts) != len(spec.names):
        raise UserError(
            f"The model takes {', '.join(spec.names)}, not {len(texts)} texts."
        )
    return InputSource("--text", [(1, tuple(texts))], lambda texts: texts)


def of_file(path: str, file_format: str, spec: InputSpec) -> InputSource:
    """Makes a source of the rows of a file, or of standard input."""
    name = path or "standard input"
    lines = (
        tables.read_lines(path)
        if path
        else tables.decode_lines(name, sys.stdin.buffer)
    )
    is_single = len(spec.names) == 1
    ending = f".{file_format}"
    if file_format == "auto":
        ending = tables.file_ending(path)
        if not path:
            has_header = not (is_single or spec.columns.is_custom)
            ending = ".tsv" if has_header else ".txt"
    if columns := spec.word_files.get(ending):
        sentences = tables.split_sentences(lines, columns)
        rows = ((sentence[0][0], sentence) for sentence in sentences)
        parse = functools.partial(_parse_sentence, columns=columns)
    else:
        names, layout = spec.names, None
        if ending == ".tsv" and not spec.columns.is_custom:
            first = next(lines, "")
            lines = itertools.chain([first], lines)
            fields = first.rstrip("\r\n").split("\t")
            if spec.file_names and {*spec.file_names} <= {*fields}:
                names = spec.file_names
            elif not {*names} <= {*fields}:
                layout = spec.bare_layout
                if not layout or layout.num_columns != len(fields):
                    ending = ".columns"
        if ending in tables.ENDINGS:
            table = tables.parse_rows(
                name, lines, ending, names, spec.columns, layout=layout
            )
            rows = ((row.place, row) for row in table)
            parse = functools.partial(_parse_row, names=names, spec=spec)
        elif ending in (".txt", ".columns"):
            is_text = ending == ".txt" and is_single
            rows = enumerate(lines, 1)
            parse = functools.partial(_parse_line, is_text=is_text, spec=spec)
        else:
            raise UserError(f"{name}: no --input_format is {ending[1:]!r}.")
    is_live = not path and sys.stdin.isatty()
    return InputSource(name, rows, parse, is_live)


def _parse_sentence(
    sentence: list[tuple[int, str]], columns: tables.WordColumns
) -> Inputs:
    words = (tables.parse_word(*line, columns).text for line in sentence)
    return (tuple(words),)


def _parse_row(row: Row, names: Sequence[str], spec: InputSpec) -> Inputs:
    """Returns the inputs; texts of a custom task must not be empty."""
    values = {x: row.value(y) for x, y in zip(spec.names, names, strict=True)}
    if spec.columns.is_custom:
        for name, value in values.items():
            is_list = spec.takes_words and isinstance(value, list)
            values[name] = row.texts(name) if is_list else row.text(name)
        return tuple(values.values())
    return inputs_of(values, spec)


def _parse_line(line: str, is_text: bool, spec: InputSpec) -> Inputs:
    text = line.removesuffix("\n").removesuffix("\r")
    values = [text] if is_text else text.split("\t")
    if len(values) != len(spec.names):
        raise BadRowError(
            f"{len(values)} columns, not {', '.join(spec.names)}."
        )
    return tuple(values)


class Answerer(abc.ABC):
    """A model as a function of text, whose answers are JSON values."""

    @property
    @abc.abstractmethod
    def input_spec(self) -> InputSpec:
        """The inputs that an item must have."""

    @abc.abstractmethod
    def make_example(self, number: int, inputs: Inputs) -> Any:  # noqa: ANN401 (its own)
        """Makes an example for `answer` from the inputs of a row."""

    @abc.abstractmethod
    def answer(self, examples: Sequence[Any]) -> list[Answer]:
        """Returns the answers to a block of examples."""

    def __call__(self, items: Iterable[Item]) -> list[Answer]:
        """Returns the answer to each item."""
        return list(self.stream(items))

    def stream(self, items: Iterable[Item]) -> Iterator[Answer]:
        """Yields the answer to each item; one block is in memory at a time."""
        if isinstance(items, str | Mapping) or hasattr(items, "columns"):
            raise UserError(
                f"`items` must be a list of inputs, not {shorten_repr(items)}."
            )
        parse = functools.partial(inputs_of, spec=self.input_spec)
        source = InputSource("items", enumerate(items, start=1), parse)
        at = functools.partial(BadRows().at, "items")
        for block in self.blocks(source, at):
            yield from (answer for _, answer in block)

    def blocks(
        self, source: InputSource, at: RowContext
    ) -> Iterator[list[tuple[int, Answer]]]:
        """Yields blocks of pairs of a row's number and its answer."""
        size = 1 if source.is_live else BLOCK_SIZE
        for block in batches(source.rows, size):
            numbers, examples = [], []
            for number, content in block:
                with at(number):
                    inputs = source.parse(content)
                    examples.append(self.make_example(len(examples), inputs))
                    numbers.append(number)
            answers = self.answer(examples) if examples else []
            yield list(zip(numbers, answers, strict=True))


def json_line(number: int, answer: dict[str, Any]) -> str:
    """Returns an answer as a line of JSON, with the number of its row."""
    return json.dumps({"line": number, **answer}, ensure_ascii=False)


def run(
    answer: Callable[[InputSource, RowContext], Blocks],
    source: InputSource,
    output: str,
    *,
    skip_bad_rows: bool,
    to_text: Callable[[int, Any], str] = json_line,
) -> None:
    """Writes the answers to all rows of a source."""
    bad_rows = BadRows(skip=skip_bad_rows)
    at = functools.partial(bad_rows.at, source.name)
    log, start, count = console.Periodic(_say), time.monotonic(), 0
    with _opened(output, source.name) as file:
        for block in answer(source, at):
            for number, found in block:
                file.write(to_text(number, found) + "\n")
            file.flush()
            count += len(block)
            log(functools.partial(_progress, count, start))
    for note in bad_rows.notes:
        _say(note)
    _say(_progress(count, start))


@contextlib.contextmanager
def _opened(output: str, source: str) -> Iterator[TextIO]:
    """Opens the output; a file appears when it is complete."""
    is_there = os.path.exists(output)
    if not output:
        yield sys.stdout
    elif is_there and not os.path.isfile(output):  # as /dev/null
        with open(output, "w", encoding="utf-8") as file:
            yield file
    else:
        if is_there and os.path.exists(source):
            if os.path.samefile(output, source):
                raise UserError(f"--output={output} would replace the input.")
        with files.atomic_open(os.path.realpath(output), "w") as file:
            yield file


def _progress(count: int, start: float) -> str:
    seconds = time.monotonic() - start
    speed = count / max(seconds, 1e-9)
    return f"Answers: {count:,} in {seconds:.1f} s ({speed:,.1f}/s)"


def _say(text: str) -> None:
    """Writes to standard error; standard output is for answers."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
