"""How commands end, and the files they write."""

import errno
import os
import subprocess
import sys

import pytest
import tensorflow as tf
from etils import epath

from electra_tf.util import files
from electra_tf.util.errors import (
    DirectoryInUseError,
    ExitCode,
    LostWorkerError,
    NonFiniteLossError,
    StoppedBySignal,
    explain,
)

FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("bad"), ExitCode.BAD_INPUT),
        (FileNotFoundError(errno.ENOENT, "missing", "f"), ExitCode.BAD_INPUT),
        (tf.errors.NotFoundError(None, None, "f"), ExitCode.BAD_INPUT),
        (DirectoryInUseError("d"), ExitCode.DIRECTORY_IN_USE),
        (NonFiniteLossError("nan"), ExitCode.NON_FINITE_LOSS),
        (MemoryError(), ExitCode.OUT_OF_MEMORY),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"),
            ExitCode.OUT_OF_MEMORY,
        ),
        (
            tf.errors.ResourceExhaustedError(None, None, f"f; {FULL}"),
            ExitCode.NO_SPACE,
        ),
        (OSError(errno.ENOSPC, FULL, "f"), ExitCode.NO_SPACE),
        (LostWorkerError("w"), ExitCode.LOST_WORKER),
        (StoppedBySignal(7), ExitCode.STOPPED_BY_SIGNAL),
        (KeyboardInterrupt(), ExitCode.STOPPED_BY_SIGNAL),
        (BrokenPipeError(), ExitCode.OUTPUT_CLOSED),
        (KeyError("a bug"), ExitCode.ERROR),
    ],
)
def test_an_error_has_an_exit_code_and_a_line(error, code):
    found, text = explain(error)
    assert found == code
    assert bool(text) != (code == ExitCode.ERROR)


COMMAND = """
import dataclasses, os, signal, sys, warnings
from electra_tf.util import console, flags

@dataclasses.dataclass(frozen=True)
class Config:
    how: str = ""

def main(config: Config):
    if config.how == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    if config.how == "closed":
        os.close(1); os.open(os.devnull, os.O_RDONLY)
    if config.how == "warns":
        warnings.warn("of use")
    console.say("done")

flags._help_texts = lambda _: {}
flags.run_command(main, Config)
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [("", 0), ("warns", 0), ("signal", 42), ("closed", 2), ("?bad", 2)],
)
def test_a_command_ends_with_its_code_and_without_a_traceback(how, code):
    flag = f"--how={how}" if how != "?bad" else how
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, flag], capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert how != "warns" or ended.stderr == "WARNING: of use\n"


@pytest.mark.parametrize("root", ["", "ram://"])
def test_a_file_is_written_completely_or_not_at_all(
    tmp_path, monkeypatch, root
):
    path = f"{root}{tmp_path}/a.json"
    epath.Path(os.path.dirname(path)).mkdir(parents=True, exist_ok=True)
    files.write_json(path, {"a": "é"})
    files.write_json(path, {"a": [1]})
    assert files.read_json(path) == {"a": [1]}
    if not root:
        monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            files.write_json(path, 2)
        assert files.read_json(path) == {"a": [1]}
        assert os.listdir(tmp_path) == ["a.json"]


def test_a_directory_has_one_owner_while_it_lives(tmp_path):
    code = (
        "import sys, time; from electra_tf.util import files\n"
        "with files.lock_directory(sys.argv[1]):\n"
        "    print(flush=True); time.sleep(99)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as owner:
        owner.stdout.readline()
        with pytest.raises(DirectoryInUseError):
            with files.lock_directory(tmp_path):
                pass
        owner.kill()
        owner.wait()
    with files.lock_directory(tmp_path):
        pass
    assert not os.listdir(tmp_path)
