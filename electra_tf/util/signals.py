"""Signals that stop a run: SIGTERM, SIGINT and SIGHUP.

During training a signal waits for a checkpoint, see
`training_utils.StopSignal`. At all other times it ends the work at once, as
Ctrl-C does, so that unfinished files are removed, see `interruptible`. Either
way the exit code is 42 and the same command resumes the run.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from electra_tf.util.errors import ExitCode

_SECONDS_TO_REPEAT = 0.1


class Interrupted(Exception):
    """A signal ended a command outside of training."""

    exit_code: ClassVar[ExitCode] = ExitCode.STOPPED_BY_SIGNAL


def stop_signals() -> list[signal.Signals]:
    """Returns the signals; without SIGHUP where `nohup` ignores it."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


@contextlib.contextmanager
def handled_by(handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Lets a function handle the stop signals inside the block."""
    previous = {
        number: signal.signal(number, handler) for number in stop_signals()
    }
    try:
        yield
    finally:
        for number, former in previous.items():
            signal.signal(number, former)


@contextlib.contextmanager
def _repeating_lost_interrupts() -> Iterator[None]:
    """Sends SIGINT again if a destructor swallowed its KeyboardInterrupt."""
    hook = sys.unraisablehook
    timers = []

    def repeat(lost: Any) -> None:  # noqa: ANN401 (private to Python)
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            hook(lost)
            return
        send = (os.getpid(), signal.SIGINT)
        timers.append(threading.Timer(_SECONDS_TO_REPEAT, os.kill, send))
        timers[-1].start()

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        sys.unraisablehook = hook


@contextlib.contextmanager
def interruptible(*, is_resumable: bool = True) -> Iterator[None]:
    """Lets signals end the block with a one-line message."""
    try:
        with (
            handled_by(signal.default_int_handler),
            _repeating_lost_interrupts(),
        ):
            yield
    except KeyboardInterrupt as error:
        advice = " Finished work is kept: give the same command to resume."
        raise Interrupted(
            f"Stopped by a signal.{advice if is_resumable else ''}"
        ) from error
