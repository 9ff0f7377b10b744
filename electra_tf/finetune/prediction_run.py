"""One run of prediction from beginning to end, as the command line starts it.

Memory is flat: a block of rows is read, answered and written at once. Answers
come in the order of the rows.
"""

import contextlib
import itertools
import json
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from electra_tf.data.formats.rows import BadRows
from electra_tf.finetune.predictor import BLOCK_SIZE, Answer, Predictor
from electra_tf.finetune.readers.inputs import InputSource
from electra_tf.util import console, files
from electra_tf.util.errors import UserError

_SECONDS_BETWEEN_LINES = 10.0


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
    progress = _Progress(sys.stderr)
    with _opened(output) as file:
        for block in _blocks(predictor, source, bad_rows):
            for number, answer in block:
                line = {"line": number, **answer}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            progress.add(len(block))
    progress.end(sum(bad_rows.counts.values()))


def _blocks(
    predictor: Predictor, source: InputSource, bad_rows: BadRows
) -> Iterator[list[tuple[int, Answer]]]:
    """Yields blocks of the numbers of rows and their answers."""
    rows = iter(source.rows)
    path = pathlib.Path(source.name)
    size = 1 if source.is_live else BLOCK_SIZE
    while block := list(itertools.islice(rows, size)):
        numbers, examples = [], []
        for number, content in block:
            with bad_rows.at(path, number):
                inputs = source.parse(content)
                example = predictor.task.make_example(len(examples), inputs)
                examples.append(example)
                numbers.append(number)
        answers = predictor.answers(examples)
        yield list(zip(numbers, answers, strict=True))


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


class _Progress:
    """Says from time to time how many rows are answered.

    Args:
      stream: where to say it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = self._last = time.monotonic()
        self._count = 0

    def add(self, count: int) -> None:
        """Counts rows that are answered."""
        self._count += count
        now = time.monotonic()
        if now - self._last > _SECONDS_BETWEEN_LINES:
            self._last = now
            self._say("")

    def end(self, num_bad: int) -> None:
        """Sums up."""
        self._say(f", bad rows left out: {num_bad:,}" * bool(num_bad))

    def _say(self, more: str) -> None:
        seconds = time.monotonic() - self._start
        speed = self._count / max(seconds, 1e-9)
        self._stream.write(
            f"Answers: {self._count:,} in {seconds:.1f} s "
            f"({speed:,.1f}/s){more}\n"
        )
        self._stream.flush()
