import os

import pytest

from electra_tf.util import console


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


def test_progress_is_logged_once_per_interval(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    logged = []
    progress = console.Periodic(logged.append)
    for now[0] in (1, 9, 10, 11, 19, 25, 30):
        progress(lambda: str(now[0]))
    assert logged == ["10", "25"]
