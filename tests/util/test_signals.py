"""Outside of training, a signal ends a command with one line."""

import os
import signal
import sys
import time

import pytest

from electra_tf.util import signals
from electra_tf.util.errors import ExitCode


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
)
def test_a_signal_interrupts_the_block_and_runs_its_cleanup(number):
    before, cleaned = signal.getsignal(number), []
    with pytest.raises(
        signals.Interrupted, match="same command"
    ) as interrupted:
        with signals.interruptible():
            try:
                os.kill(os.getpid(), number)
                signal.pause()
            finally:
                cleaned.append(number)
    assert interrupted.value.exit_code == ExitCode.STOPPED_BY_SIGNAL == 42
    assert cleaned == [number] and signal.getsignal(number) is before


def test_only_a_command_that_keeps_work_says_how_to_resume():
    with pytest.raises(signals.Interrupted) as interrupted:
        with signals.interruptible(is_resumable=False):
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
    assert str(interrupted.value) == "Stopped by a signal."


class _Destroyed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()  # never returns


def test_a_signal_that_interrupts_a_destructor_is_not_lost():
    hook, reached = sys.unraisablehook, []
    with pytest.raises(signals.Interrupted):
        with signals.interruptible():
            _Destroyed()
            reached.append("after it")
            time.sleep(60)
    assert reached and sys.unraisablehook is hook


def test_a_hang_up_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_interruptible_passes_errors_through():
    with pytest.raises(ZeroDivisionError):
        with signals.interruptible():
            raise ZeroDivisionError
