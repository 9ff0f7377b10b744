"""Messages to the terminal: output, warnings, progress, errors."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator

from electra_tf.util.errors import ExitCode, add_path_to_errors, explain

_OUTPUT = "standard output"

SECONDS_BETWEEN_LOGS = 10


class Periodic:
    """Logs the progress of a long step, at most every
    `SECONDS_BETWEEN_LOGS`."""

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
    """Writes a line to standard output."""
    _clear_line()
    with add_path_to_errors(_OUTPUT):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def warn(text: str) -> None:
    """Writes a warning to standard error, in yellow on a terminal."""
    line = f"WARNING: {text}"
    if sys.stderr.isatty():
        line = f"\x1b[33m{line}\x1b[0m"
    _clear_line()
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def report(error: BaseException) -> ExitCode:
    """Writes the error that ended a command to standard error."""
    code, text = explain(error)
    _clear_line()
    if code == ExitCode.ERROR:
        traceback.print_exception(error)
    else:
        sys.stderr.write(f"{text}\n")
    return code


def _clear_line() -> None:
    """Removes a line of progress, which has no line break, from a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def format_speed(num_bytes: int, start: float) -> str:
    """Formats the speed at which text was read."""
    seconds = time.monotonic() - start
    size = num_bytes / 1e6
    return f"{size:.1f} MB in {seconds:.1f} s ({size / seconds:.2f} MB/s)"


@contextlib.contextmanager
def flushed_output() -> Iterator[None]:
    """Flushes standard output at the end of the block."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            _flush()
        raise
    _flush()


def _flush() -> None:
    try:
        with add_path_to_errors(_OUTPUT):
            sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise


@contextlib.contextmanager
def quiet_imports() -> Iterator[None]:
    """Silences TensorFlow's log messages during its import, and later."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
