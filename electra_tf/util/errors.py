"""Errors that a command reports in one line, and their exit codes.

Errors of TensorFlow are known by class name, so that it need not be imported.
"""

import enum
import errno
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import ClassVar

_MAX_LISTED = 20
_DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))


class ExitCode(enum.IntEnum):
    """Exit codes of the commands."""

    DONE = 0
    ERROR = 1  # a bug in electra_tf: a traceback is printed
    BAD_INPUT = 2  # a flag, a file or a directory cannot be used
    DIRECTORY_IN_USE = 3  # another run writes to the same directory
    NON_FINITE_LOSS = 4  # a loss or a weight became infinite or NaN
    OUT_OF_MEMORY = 5  # the batch does not fit the device or the machine
    NO_SPACE = 6  # a disk or a quota is full
    LOST_WORKER = 7  # another worker did not come, ended or hangs
    STOPPED_BY_SIGNAL = 42  # what was done is saved; run again to go on
    OUTPUT_CLOSED = 141  # the reader of the output, as `head`, has exited


class UserError(ValueError):
    """Input that cannot be used."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT


class ElectraWarning(UserWarning):
    """Input that works, but probably not as intended."""


def advise(text: str) -> None:
    """Warns the caller of the function that calls this."""
    warnings.warn(text, ElectraWarning, stacklevel=3)


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


def explain(error: BaseException) -> tuple[ExitCode, str]:
    """Returns the exit code and the message of an error; "" for a bug."""
    names = {base.__name__ for base in type(error).__mro__}
    text = reason(error) or type(error).__name__
    if code := getattr(error, "exit_code", None):
        return code, str(error)
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.STOPPED_BY_SIGNAL, (
            "Stopped by a signal. Give the same command to resume."
        )
    if isinstance(error, BrokenPipeError):
        return ExitCode.OUTPUT_CLOSED, "The reader of the output has exited."
    if names & {"OSError", "OpError"} and any(x in text for x in _DISK_FULL):
        return ExitCode.NO_SPACE, text
    if names & {"MemoryError", "ResourceExhaustedError"}:
        return ExitCode.OUT_OF_MEMORY, (
            f"Out of memory: {text.splitlines()[0]}. Smaller batches, or in "
            "training more gradient accumulation or recomputing, need less."
        )
    if names & {"OSError", "ValueError", "OpError"}:
        return ExitCode.BAD_INPUT, text
    return ExitCode.ERROR, ""


def reason(error: BaseException) -> str:
    """Returns an error's text without TensorFlow's node names."""
    text = getattr(error, "message", None) or str(error)
    return re.sub(r"\{\{.*?\}\} ?|\s*\[Op:.*", "", text).strip()


def listed(names: Sequence[str]) -> str:
    """Joins names, at most 20 of them, and says how many more."""
    more = len(names) - _MAX_LISTED
    tail = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:_MAX_LISTED]) + tail


def shape_differences(
    expected: Mapping[str, Sequence[int]],
    received: Mapping[str, Sequence[int]],
) -> str:
    """Lists the names that are missing, unexpected or of another shape."""
    kinds = {
        "missing": sorted(expected.keys() - received.keys()),
        "unexpected": sorted(received.keys() - expected.keys()),
        "reshaped": [
            f"{name} {list(received[name])}, expected {list(expected[name])}"
            for name in sorted(expected.keys() & received.keys())
            if list(expected[name]) != list(received[name])
        ],
    }
    return "".join(f"\n  {kind}: {listed(x)}" for kind, x in kinds.items() if x)
