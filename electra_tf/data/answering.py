"""Predictions for rows of text, from Python values or from files.

Memory is constant: one block of rows is read, answered and written at a time.
The formats of files:

  txt    one text per line; or two, with a tab between them, for pairs
  tsv    columns that the first line names, as in GLUE's files, or else one
         column for each input; for a custom task like its training files
  csv    likewise, with a header
  jsonl  one object per line, with a field for each input of the model
  conll  for a tagger: one word per line and an empty line between sentences,
         as in its training files; conllu likewise
"""

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
from electra_tf.util.errors import UserError

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


class InputSource(NamedTuple):
    """Numbered inputs to predict, without the bad rows."""

    name: str
    rows: Iterable[tuple[int, Inputs]]
    bad_rows: BadRows


class InputSpec(NamedTuple):
    """The inputs of a model, and the files that may hold them."""

    names: tuple[str, ...]
    takes_words: bool = False
    columns: ColumnsConfig = ColumnsConfig()
    file_names: tuple[str, ...] = ()
    bare_layout: Layout | None = None
    word_files: Mapping[str, tables.WordColumns] = {}


def of_items(items: Iterable[Item], spec: InputSpec) -> InputSource:
    bad_rows = BadRows()

    def rows() -> Iterator[tuple[int, Inputs]]:
        for number, item in enumerate(items, 1):
            with bad_rows.at("items", number):
                yield number, inputs_of(item, spec)

    return InputSource("items", rows(), bad_rows)


def inputs_of(item: Item, spec: InputSpec) -> Inputs:
    if isinstance(item, Mapping):
        item = [Row(item).value(name) for name in spec.names]
    elif len(spec.names) == 1:
        item = [item]
    if not isinstance(item, tuple | list) or len(item) != len(spec.names):
        raise BadRowError(
            f"An input has {', '.join(spec.names)}, not {item!r:.60}."
        )
    for value in item:
        is_list = spec.takes_words and isinstance(value, Sequence)
        if not all(isinstance(x, str) for x in (value if is_list else [value])):
            raise BadRowError(f"{value!r:.60} is no text.")
    return tuple(item)


def of_file(
    path: str, file_format: str, spec: InputSpec, *, skip_bad_rows: bool = False
) -> InputSource:
    """Makes a source of the rows of a file, or of standard input."""
    if path:
        name, ending = path, tables.file_ending(path)
        lines = tables.read_lines(path)
    else:
        name = "standard input"
        lines = tables.decode_lines(name, sys.stdin.buffer)
        is_plain = len(spec.names) == 1 or spec.columns.is_custom
        ending = ".txt" if is_plain else ".tsv"
    if file_format != "auto":
        ending = f".{file_format}"
    bad_rows = BadRows(skip=skip_bad_rows)
    rows = _read(name, lines, ending, spec, bad_rows)
    return InputSource(name, rows, bad_rows)


def _read(
    name: str,
    lines: Iterator[str],
    ending: str,
    spec: InputSpec,
    bad_rows: BadRows,
) -> Iterator[tuple[int, Inputs]]:
    if columns := spec.word_files.get(ending):
        sentences = tables.read_sentences(name, columns, bad_rows, lines=lines)
        for words in sentences:
            yield words[0].place, (tuple(word.text for word in words),)
        return
    names, layout = spec.names, None
    is_text = ending == ".txt"
    if ending == ".tsv" and not spec.columns.is_custom:
        first = next(lines, "")
        lines = itertools.chain([first], lines)
        fields = first.rstrip("\r\n").split("\t")
        if spec.file_names and {*spec.file_names} <= {*fields}:
            names = spec.file_names
        elif not {*names} <= {*fields}:
            layout = spec.bare_layout
            is_text = not layout or layout.num_columns != len(fields)
    if is_text:
        for number, line in enumerate(lines, 1):
            text = line.removesuffix("\n").removesuffix("\r")
            is_one = ending == ".txt" and len(names) == 1
            values = [text] if is_one else text.split("\t")
            with bad_rows.at(name, number):
                if len(values) != len(names):
                    raise BadRowError(
                        f"{len(values)} columns, not {', '.join(names)}."
                    )
                yield number, tuple(values)
        return
    for row in tables.read_rows(
        name, names, spec.columns, layout=layout, lines=lines, ending=ending
    ):
        with bad_rows.at(name, row.place):
            read = row.value
            if spec.columns.is_custom:  # whose texts must not be blank
                first = row.value(names[0])
                is_list = spec.takes_words and isinstance(first, list)
                read = row.texts if is_list else row.text
            values = dict(zip(spec.names, map(read, names), strict=True))
            yield row.place, inputs_of(values, spec)


def answer_blocks(
    source: InputSource,
    make_example: Callable[[int, Inputs], Any],
    answer: Callable[[Sequence[Any]], Sequence[Answer]],
) -> Iterator[list[tuple[int, Answer]]]:
    """Yields blocks of pairs of a row's number and its answer."""
    rows = iter(source.rows)
    while block := list(itertools.islice(rows, BLOCK_SIZE)):
        numbers, examples = [], []
        for number, inputs in block:
            with source.bad_rows.at(source.name, number):
                examples.append(make_example(len(examples), inputs))
                numbers.append(number)
        answers = answer(examples) if examples else []
        yield list(zip(numbers, answers, strict=True))


def json_line(number: int, answer: dict[str, Any]) -> str:
    """Returns an answer as a line of JSON, with the number of its row."""
    return json.dumps({"line": number, **answer}, ensure_ascii=False)


def write_answers(
    blocks: Iterable[Sequence[tuple[int, Any]]],
    source: InputSource,
    output: str,
    to_text: Callable[[int, Any], str] = json_line,
) -> None:
    start, count = time.monotonic(), 0

    def progress() -> str:
        return f"Answers: {count:,} in {time.monotonic() - start:.1f} s"

    # Standard output is for answers.
    say = functools.partial(print, file=sys.stderr, flush=True)
    log = console.Periodic(say)
    with _opened(output, source.name) as file:
        for block in blocks:
            file.writelines(f"{to_text(*pair)}\n" for pair in block)
            file.flush()
            count += len(block)
            log(progress)
    for note in [*source.bad_rows.notes, progress()]:
        say(note)


@contextlib.contextmanager
def _opened(output: str, source: str) -> Iterator[TextIO]:
    """Opens the output; a file appears when it is complete."""
    path = os.path.realpath(output)
    if not output:
        yield sys.stdout
    elif os.path.exists(path) and not os.path.isfile(path):  # /dev/null
        with open(path, "w", encoding="utf-8") as file:
            yield file
    elif path == os.path.realpath(source):
        raise UserError(f"--output={output} would replace the input.")
    else:
        with files.atomic_open(path, "w") as file:
            yield file
