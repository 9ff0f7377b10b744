"""The errors a command reports in one line, and its exit codes.

| exit code | name | when |
|---|---|---|
| 0 | DONE | the command did all it was asked to |
| 1 | ERROR | a fault of ours: a traceback is printed |
| 2 | BAD_INPUT | a flag, a file or a directory is not as it must be |
| 3 | DIRECTORY_IN_USE | another run writes to the same directory |
| 4 | NON_FINITE_LOSS | a loss, or weights, became infinite or not a number |
| 5 | OUT_OF_MEMORY | the batch does not fit the device or the machine |
| 42 | STOPPED_BY_SIGNAL | what was done is saved; run again to go on |
"""

import enum
from typing import ClassVar


class ExitCode(enum.IntEnum):
    """How a command ended; the module's table says when."""

    DONE = 0
    ERROR = 1
    BAD_INPUT = 2
    DIRECTORY_IN_USE = 3
    NON_FINITE_LOSS = 4
    OUT_OF_MEMORY = 5
    STOPPED_BY_SIGNAL = 42


class UserError(ValueError):
    """What the user gave cannot be used; the text says what would do."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT


class DirectoryInUseError(UserError):
    """Another run writes to the directory."""

    exit_code = ExitCode.DIRECTORY_IN_USE


class NonFiniteLossError(RuntimeError):
    """The loss, or a weight, is infinite or not a number."""

    exit_code: ClassVar[ExitCode] = ExitCode.NON_FINITE_LOSS


class StoppedBySignal(Exception):
    """A signal ended training after a checkpoint was saved.

    Attributes:
      step: updates done, all of them in the checkpoint.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.STOPPED_BY_SIGNAL

    def __init__(self, step: int) -> None:
        super().__init__(
            f"Stopped by a signal; the checkpoint of step {step} is saved. "
            "Give the same command to go on."
        )
        self.step = step


def shown(value: object) -> str:
    """Writes what was received, for an error: of a long text the beginning."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
