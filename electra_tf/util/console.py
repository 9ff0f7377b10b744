"""The process of a command: its messages, signals, memory and threads."""

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from electra_tf.util.errors import ExitCode, explain

SECONDS_BETWEEN_LOGS = 10

_MALLOPT_OPTIONS = {
    -4: 0,  # M_MMAP_MAX: no block has a mapping of its own
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: the heap does not shrink
    -2: 2**28,  # M_TOP_PAD: it grows by 256 MiB, touched when needed
    -8: 1,  # M_ARENA_MAX: one heap, as others fit no block over 64 MiB
}
_MAX_SMALL_ACTIVATIONS = 2**18
"""Activations of a layer up to which half of the cores are faster."""


class Periodic:
    """Logs the progress of a long step, at most every 10 seconds."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._next = time.monotonic() + SECONDS_BETWEEN_LOGS

    def __call__(self, make_text: Callable[[], str]) -> None:
        """Calls `log` with what `make_text` returns, if it is time."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SECONDS_BETWEEN_LOGS
            self._log(make_text())


def say(text: str = "") -> None:
    _write(text, sys.stdout)


def warn(text: str) -> None:
    _write(f"WARNING: {text}", sys.stderr)


def _write(text: str, file: TextIO) -> None:
    """Writes a line, on a terminal in place of a line of progress."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    file.write(f"{text}\n")
    file.flush()


def report(error: BaseException, *, full: bool = False) -> ExitCode:
    """Writes the error that ended a command to standard error."""
    code, text = explain(error)
    if full or code == ExitCode.ERROR:
        text = "".join(traceback.format_exception(error)).rstrip("\n")
    _write(text, sys.stderr)
    return code


def aligned_table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = ""
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [x.rjust(n) for x, n in zip(others, widths[1:], strict=True)]
        text += "  ".join(cells).rstrip() + "\n"
    return text


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows, of which the first is the header, in Markdown."""
    header, *others = [[x.replace("|", r"\|") for x in row] for row in rows]
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "".join(f"| {' | '.join(x)} |\n" for x in (header, rule, *others))


@contextlib.contextmanager
def flushed_output() -> Iterator[None]:
    """Flushes standard output at the end, or drops it if that is closed."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        # Else Python flushes again when it ends, with a message of its own.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        raise


@contextlib.contextmanager
def handled_by(handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Handles SIGTERM, SIGINT and, unless under nohup, SIGHUP in the block."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    former = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, function in former.items():
            signal.signal(number, function)


def keep_memory() -> None:
    """Makes the GNU C library keep freed memory for the next allocation.

    It maps each large block when it is allocated, so that every update touches
    all its memory for the first time: a page fault for each 4 KiB.
    """
    # macOS, musl; Windows
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option in _MALLOPT_OPTIONS.items():
            mallopt(*option)


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_intra_op_threads(num_activations: int) -> None:
    """Limits each operation to half of the cores where a step is small.

    TensorFlow runs as many operations at once as there are cores, each with as
    many threads, which wait for each other longer than they save.
    """
    if num_activations <= _MAX_SMALL_ACTIVATIONS:
        half = max(1, num_cores() // 2)
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(half))
