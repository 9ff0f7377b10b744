"""The signals by which a run is asked to end.

While training they wait for a checkpoint, see `training_utils.StopSignal`. At
all other times they end what is being done at once, as Ctrl-C does, so that
unfinished files are removed: `interruptible`. Either way the exit code is 42
and the same command goes on.
"""

import contextlib
import signal
from collections.abc import Iterator
from typing import ClassVar

from electra_tf.util.errors import ExitCode


class Interrupted(Exception):
    """A signal ended a command while it did not train."""

    exit_code: ClassVar[ExitCode] = ExitCode.STOPPED_BY_SIGNAL


def that_end_a_run() -> list[signal.Signals]:
    """Returns the signals; no SIGHUP where `nohup` has it ignored."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lets signals end what is done inside, with one line.

    Raises:
      Interrupted: after SIGTERM, SIGINT or SIGHUP.
    """
    previous = {
        number: signal.signal(number, signal.default_int_handler)
        for number in that_end_a_run()
    }
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(
            "Stopped by a signal. What was finished is kept: give the same "
            "command to go on."
        ) from error
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
