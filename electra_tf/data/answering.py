"""Predictions for rows of text, from Python values or from files.

Memory is constant: one block of rows is read, answered and written at a time.
Answers come in the order of the rows.
"""

import abc
import contextlib
import functools
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from electra_tf.data.formats.inputs import (
    Inputs,
    InputSource,
    InputSpec,
    Item,
    inputs_of,
)
from electra_tf.data.formats.rows import BadRowError, BadRows
from electra_tf.util import console, files
from electra_tf.util.batching import batches
from electra_tf.util.errors import UserError, shorten_repr

BLOCK_SIZE = 1024
"""Items in memory at once; a block is sorted by length into batches."""

Answer = dict[str, Any]
"""A prediction as JSON values."""
RowContext = Callable[[int], contextlib.AbstractContextManager]
"""Maps the number of a row to the context manager in which the row is read. It
may suppress a `BadRowError`: the row then has no answer."""
Blocks = Iterator[Sequence[tuple[int, Any]]]
"""Blocks of pairs of a row's number and its answer."""


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
                "`items` must be a sequence of inputs to predict. "
                f"Received: a single {type(items).__name__}, "
                f"{shorten_repr(items)}. Put a single item in a list; give one "
                "column of a table."
            )
        parse = functools.partial(inputs_of, spec=self.input_spec)
        source = InputSource("items", enumerate(items, start=1), parse)
        for block in self.blocks(source, _naming_item):
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


@contextlib.contextmanager
def _naming_item(number: int) -> Iterator[None]:
    try:
        yield
    except BadRowError as error:
        raise UserError(f"Item {number}: {error}") from error


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
    """Answers all rows of a source."""
    _check_keeps_input(output, source.name)
    bad_rows = BadRows(skip=skip_bad_rows)
    at = functools.partial(bad_rows.at, pathlib.Path(source.name))
    log, start, count = console.Periodic(_say), time.monotonic(), 0
    with opened(output) as file:
        for block in answer(source, at):
            for number, found in block:
                file.write(to_text(number, found) + "\n")
            file.flush()
            count += len(block)
            log(functools.partial(_progress, "Answers so far", count, start))
    for note in bad_rows.notes:
        _say(note)
    num_bad = sum(bad_rows.counts.values())
    bad = f", bad rows left out: {num_bad:,}" * bool(num_bad)
    _say(_progress("Answers", count, start) + bad)


def _check_keeps_input(*paths: str) -> None:
    """Refuses an output that would replace the input."""
    if all(map(os.path.isfile, paths)) and os.path.samefile(*paths):
        raise UserError(
            "`output` must be another file than `input`, which it would "
            f"replace. Received: output={paths[0]!r}. Name another one."
        )


@contextlib.contextmanager
def opened(output: str) -> Iterator[TextIO]:
    """Opens the output; a file appears when it is complete."""
    if not output:
        yield sys.stdout
        return
    is_special = os.path.exists(output) and not os.path.isfile(output)
    try:
        with (
            open(output, "w", encoding="utf-8")
            if is_special
            else files.atomic_open(os.path.realpath(output), "w")
        ) as file:
            yield file
    except OSError as error:
        raise UserError(
            f"`output` must be a file that can be written. Received: {output}: "
            f"{error.strerror}."
        ) from error


def _progress(what: str, count: int, start: float) -> str:
    """Says how many rows are answered since a time of `time.monotonic`."""
    seconds = time.monotonic() - start
    speed = count / max(seconds, 1e-9)
    return f"{what}: {count:,} in {seconds:.1f} s ({speed:,.1f}/s)"


def _say(text: str) -> None:
    """Writes a line to standard error; standard output is for answers."""
    with contextlib.suppress(BrokenPipeError):  # its reader has exited
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
