"""One run of prediction from beginning to end, as the command line starts it.

Memory is flat: a block of rows is read, answered and written at once. Answers
come in the order of the rows.
"""

import contextlib
import functools
import json
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from electra_tf.data.formats.rows import BadRows
from electra_tf.finetune.predictor import Predictor
from electra_tf.finetune.readers.inputs import InputSource
from electra_tf.util import console, files
from electra_tf.util.errors import UserError


def run(
    predictor: Predictor,
    source: InputSource,
    output: str,
    *,
    skip_bad_rows: bool,
) -> None:
    """Answers all rows of a source.

    Args:
      predictor: that answers.
      source: of the rows.
      output: path of the file to write, which is there when it is complete;
        "" for standard output.
      skip_bad_rows: whether to leave out rows that cannot be read, and count
        them.

    Raises:
      UserError: naming what cannot be read or written.
    """
    bad_rows = BadRows(skip=skip_bad_rows)
    at = functools.partial(bad_rows.at, pathlib.Path(source.name))
    log, start, count = console.Periodic(_say), time.monotonic(), 0
    with _opened(output) as file:
        for block in predictor.blocks(source, at):
            for number, answer in block:
                line = {"line": number, **answer}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            count += len(block)
            log(functools.partial(_progress, count, start))
    num_bad = sum(bad_rows.counts.values())
    bad = f", bad rows left out: {num_bad:,}" * bool(num_bad)
    _say(_progress(count, start) + bad)


@contextlib.contextmanager
def _opened(output: str) -> Iterator[TextIO]:
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
