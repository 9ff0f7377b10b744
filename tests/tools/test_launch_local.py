"""The local launcher, with workers that are scripts of a few lines."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import launch_local
import pytest

TOOLS = pathlib.Path(launch_local.__file__).parent
START = """
import json, os, pathlib, signal, sys, time
config = json.loads(os.environ["TF_CONFIG"])
number = config["task"]["index"]
log = pathlib.Path(sys.argv[1], str(number))
with log.open("a") as f:
    f.write("start\\n")
starts = log.read_text().count("start")
"""


def _command(directory, code):
    return [sys.executable, "-S", "-c", START + code, str(directory)]


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("first", "restarts", "starts", "code"),
    [
        (KILLED, 1, 2, 0),
        (KILLED, 0, 1, 137),
        ("sys.exit(1)", 2, 2, 0),
        ("sys.exit(2)", 2, 1, 2),
        ("sys.exit(42)", 2, 1, 42),
    ],
)
def test_failures_that_may_pass_start_all_again(
    tmp_path, first, restarts, starts, code
):
    """The other workers end with exit code 7, as those that lost one do."""
    work = f"""
if starts == 1 and number == 1:
    {first}
if starts == 1:
    while not log.with_name("1").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    sys.exit(7)
"""
    command = _command(tmp_path, work)
    found = launch_local.launch(command, num_workers=3, max_restarts=restarts)
    assert found == code
    counts = [path.read_text().count("start") for path in tmp_path.iterdir()]
    assert counts == [starts] * 3


def test_a_signal_comes_once_to_each_worker_and_nothing_starts_again(tmp_path):
    code = """
def stop(number, _):
    with log.open("a") as f:
        f.write("stop\\n")
    time.sleep(0.3)
    sys.exit(42)
signal.signal(signal.SIGINT, stop)
with log.open("a") as f:
    f.write("ready\\n")
time.sleep(60)
"""
    launcher = (
        "import launch_local, sys\n"
        f"command = {_command(tmp_path, code)!r}\n"
        "sys.exit(launch_local.launch(command, num_workers=2, max_restarts=1))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", launcher],
        env={**os.environ, "PYTHONPATH": f"{TOOLS}:{TOOLS.parent}"},
    )
    logs = [tmp_path / "0", tmp_path / "1"]
    deadline = time.monotonic() + 30
    while not all(x.exists() and "ready" in x.read_text() for x in logs):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 42
    assert [log.read_text() for log in logs] == ["start\nready\nstop\n"] * 2
