"""Answers to the rows of an input, from beginning to end, for a command line.

Memory is flat: a block of rows is read, answered and written at once. Answers
come in the order of the rows.
"""

import contextlib
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from electra_tf.data.formats.inputs import InputSource
from electra_tf.data.formats.rows import BadRows
from electra_tf.util import console, files
from electra_tf.util.errors import UserError

At = Callable[[int], contextlib.AbstractContextManager]
"""Makes of a row's number the context in which it is read, which may pass over
a `BadRowError`: the row then has no answer."""
Blocks = Iterator[Sequence[tuple[int, Any]]]
"""Blocks of the numbers of rows and their answers."""


def json_line(number: int, answer: dict[str, Any]) -> str:
    """Returns an answer as a line of JSON, with the number of its row."""
    return json.dumps({"line": number, **answer}, ensure_ascii=False)


def run(
    answer: Callable[[InputSource, At], Blocks],
    source: InputSource,
    output: str,
    *,
    skip_bad_rows: bool,
    to_text: Callable[[int, Any], str] = json_line,
) -> None:
    """Answers all rows of a source.

    Args:
      answer: reads the rows and answers.
      source: of the rows.
      output: path of the file to write, which is there when it is complete;
        "" for standard output.
      skip_bad_rows: whether to leave out rows that cannot be read, and count
        them.
      to_text: makes a line, or several, of a row's number and its answer.

    Raises:
      UserError: naming what cannot be read or written.
    """
    bad_rows = BadRows(skip=skip_bad_rows)
    at = functools.partial(bad_rows.at, pathlib.Path(source.name))
    log, start, count = console.Periodic(_say), time.monotonic(), 0
    with opened(output) as file:
        for block in answer(source, at):
            for number, found in block:
                file.write(to_text(number, found) + "\n")
            file.flush()
            count += len(block)
            log(functools.partial(_progress, count, start))
    num_bad = sum(bad_rows.counts.values())
    bad = f", bad rows left out: {num_bad:,}" * bool(num_bad)
    _say(_progress(count, start) + bad)


@contextlib.contextmanager
def opened(output: str) -> Iterator[TextIO]:
    """Opens the output; a file appears when it is complete.

    A reader of standard output that goes away, as `head`, ends the command.
    """
    if not output:
        try:
            yield sys.stdout
        except BrokenPipeError:
            console.discard_output()
        return
    try:
        with files.atomic_open(output, "w") as file:
            yield file
    except OSError as error:
        raise UserError(
            f"`output` must be a file that can be written. Received: {output}: "
            f"{error.strerror}."
        ) from error


def _progress(count: int, start: float) -> str:
    """Says how many rows are answered since a time of `time.monotonic`."""
    seconds = time.monotonic() - start
    speed = count / max(seconds, 1e-9)
    return f"Answers: {count:,} in {seconds:.1f} s ({speed:,.1f}/s)"


def _say(text: str) -> None:
    """Writes a line to standard error; standard output is for answers."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
