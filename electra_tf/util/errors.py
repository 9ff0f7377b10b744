"""Errors that a command reports in one line, their texts and exit codes.

`explain` maps an error to its exit code. Errors of other packages are known by
class name and message, so that TensorFlow need not be imported.
"""

import contextlib
import enum
import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

MAX_LISTED = 20

_DISK_FULL_CODES = (errno.ENOSPC, errno.EDQUOT)
_DISK_FULL_TEXTS = tuple(map(os.strerror, _DISK_FULL_CODES))
_SYSTEM_ERROR_ENDINGS = tuple(f"; {os.strerror(n)}" for n in errno.errorcode)


class ExitCode(enum.IntEnum):
    """Exit codes of the commands."""

    DONE = 0
    ERROR = 1  # a bug in electra_tf: a traceback is printed
    BAD_INPUT = 2  # a flag, a file or a directory is not as it must be
    DIRECTORY_IN_USE = 3  # another run writes to the same directory
    NON_FINITE_LOSS = 4  # a loss or a weight became infinite or NaN
    OUT_OF_MEMORY = 5  # the batch does not fit the device or the machine
    NO_SPACE = 6  # a disk or a quota is full, whatever was being written
    LOST_WORKER = 7  # another worker did not come, ended or hangs
    STOPPED_BY_SIGNAL = 42  # what was done is saved; run again to go on
    INTERRUPTED = 130  # Ctrl-C in a command with nothing to resume, as predict
    OUTPUT_CLOSED = 141  # the reader of the output, as `head`, has exited


class UserError(ValueError):
    """Input that cannot be used; the message says what would be valid."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT


class ElectraWarning(UserWarning):
    """Input that works, but probably not as intended."""


class DirectoryInUseError(UserError):
    """Another run writes to the directory."""

    exit_code = ExitCode.DIRECTORY_IN_USE


class NonFiniteLossError(RuntimeError):
    """A loss or a weight is infinite or NaN."""

    exit_code: ClassVar[ExitCode] = ExitCode.NON_FINITE_LOSS


class LostWorkerError(RuntimeError):
    """Another worker of the run did not come, ended or hangs."""

    exit_code: ClassVar[ExitCode] = ExitCode.LOST_WORKER


class StoppedBySignal(Exception):
    """A signal ended training after a checkpoint was saved."""

    exit_code: ClassVar[ExitCode] = ExitCode.STOPPED_BY_SIGNAL

    def __init__(self, step: int) -> None:
        super().__init__(
            f"Stopped by a signal; the checkpoint of step {step} is saved. "
            "Give the same command to resume."
        )
        self.step = step


def shorten_repr(value: object) -> str:
    """Returns a received value for an error message, shortened if long."""
    try:
        text = repr(value)
    except RecursionError:  # it nests deeper than Python can print
        text = f"a {type(value).__name__} that nests too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."


def reason(error: BaseException) -> str:
    """Returns an error's text without TensorFlow's node names."""
    text = getattr(error, "message", None) or str(error)
    return re.sub(r"\{\{.*?\}\} ?|\s*\[Op:.*", "", text).strip()


def listed(names: Sequence[str]) -> str:
    """Joins names, at most `MAX_LISTED` of them, and says how many more."""
    more = len(names) - MAX_LISTED
    tail = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:MAX_LISTED]) + tail


def shape_differences(
    expected: Mapping[str, Sequence[int]],
    received: Mapping[str, Sequence[int]],
    *,
    unexpected: str = "unexpected",
) -> str:
    """Lists the names that are missing, unexpected or of another shape."""
    kinds = {
        "missing": sorted(expected.keys() - received.keys()),
        unexpected: sorted(received.keys() - expected.keys()),
        "of another shape": [
            f"{name} {list(received[name])}, expected {list(expected[name])}"
            for name in sorted(expected.keys() & received.keys())
            if list(expected[name]) != list(received[name])
        ],
    }
    return "".join(
        f"\n  {kind}: {listed(names)}" for kind, names in kinds.items() if names
    )


@contextlib.contextmanager
def add_path_to_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Adds a path to errors of the operating system that name none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def explain(error: BaseException) -> tuple[ExitCode, str]:
    """Returns the exit code and the message of an error."""
    code = getattr(error, "exit_code", None)
    if code in (None, ExitCode.BAD_INPUT) and _is_disk_full(error):
        return ExitCode.NO_SPACE, (
            "The disk must have free space. Received: "
            f"{_first_line(error)}. Free some and give the same command again."
            if code is None
            else str(error)
        )
    if code is not None:
        return code, str(error)
    return _explain_others(error)


def _explain_others(error: BaseException) -> tuple[ExitCode, str]:
    """Explains errors that have no exit code of their own."""
    names = {base.__name__ for base in type(error).__mro__}
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED, "Interrupted by Ctrl-C."
    if isinstance(error, BrokenPipeError):
        return ExitCode.OUTPUT_CLOSED, "The reader of the output has exited."
    if names & {"MemoryError", "ResourceExhaustedError"}:
        return ExitCode.OUT_OF_MEMORY, (
            "Out of memory. In training: lower --train_batch_size (of "
            "predict, --batch_size) or --max_seq_length, set --recompute or "
            "raise --gradient_accumulation_steps, which change no result, or "
            "set --precision=bfloat16. In a build: lower --num_processes or "
            "--vocab_sample_bytes. "
            f"Received: {_first_line(error)}"
        )
    if text := _unusable_path(error, names):
        return ExitCode.BAD_INPUT, (
            "A file or directory must exist and be accessible to this user. "
            f"Received: {text}. Check the path and its permissions."
        )
    return ExitCode.ERROR, ""


def _is_disk_full(error: BaseException | None) -> bool:
    """Returns whether an error, or one of its causes, means a full disk."""
    while error is not None:
        is_full = getattr(error, "errno", None) in _DISK_FULL_CODES
        if is_full or any(text in str(error) for text in _DISK_FULL_TEXTS):
            return True
        error = error.__cause__
    return False


def _unusable_path(error: BaseException, names: set[str]) -> str:
    """Returns path and problem where the operating system refused a path."""
    if isinstance(error, OSError):
        is_named = error.errno is not None and error.filename is not None
        return _first_line(error) if is_named else ""
    lines = reason(error).splitlines() if "OpError" in names else []
    return next((x for x in lines if x.endswith(_SYSTEM_ERROR_ENDINGS)), "")


def _first_line(error: BaseException) -> str:
    return reason(error).partition("\n")[0].rstrip(".")
