import io
import os
import sys

import pytest

from electra_tf.util import console
from electra_tf.util.errors import UserError


def test_quiet_imports_silences_stderr_only_inside(capfd, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    with console.quiet_imports():
        os.write(2, b"a note of TensorFlow\n")
    os.write(2, b"an error of ours\n")
    assert capfd.readouterr().err == "an error of ours\n"
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_standard_error_comes_back_after_a_failed_import(capfd):
    with pytest.raises(ImportError), console.quiet_imports():
        raise ImportError("no such module")
    os.write(2, b"said\n")
    assert capfd.readouterr().err == "said\n"


def test_warnings_go_to_standard_error(capsys):
    console.warn("look out")
    console.say("all is well")
    captured = capsys.readouterr()
    assert captured.err == "WARNING: look out\n"
    assert captured.out == "all is well\n"


def test_a_line_of_progress_is_removed_before_a_message(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    for show in (
        lambda: console.say("saved"),
        lambda: console.warn("look out"),
        lambda: console.report(UserError("must end")),
    ):
        terminal.write("ETA 0:02:11")
        show()
    first, second, third = terminal.getvalue().rstrip().split("\n")
    assert first == "ETA 0:02:11\r\x1b[Ksaved"
    assert second.startswith("ETA 0:02:11\r\x1b[K\x1b[33mWARNING")
    assert third.startswith("ETA 0:02:11\r\x1b[K") and "must end" in third


def test_progress_is_logged_once_per_interval(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    logged = []
    progress = console.Periodic(logged.append)
    for now[0] in (1, 9, 10, 11, 19, 25, 30):
        progress(lambda: str(now[0]))
    assert logged == ["10", "25"]
