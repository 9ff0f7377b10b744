"""The local launcher, with workers that are scripts of a few lines."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import launch_local
import pytest

from electra_tf.util.errors import ExitCode

ROOT = pathlib.Path(launch_local.__file__).parents[1]
_START = """
import json, os, pathlib, signal, sys, time
config = json.loads(os.environ["TF_CONFIG"])
number = config["task"]["index"]
log = pathlib.Path(sys.argv[1], str(number))
with log.open("a") as f:
    f.write("start\\n")
starts = log.read_text().count("start")
"""


def _command(directory, code):
    return [sys.executable, "-S", "-c", _START + code, str(directory)]


def _launch(directory, code, **settings):
    settings = {"num_workers": 3, **settings}
    return launch_local.launch(_command(directory, code), **settings)


def _starts(directory):
    return [path.read_text().count("start") for path in directory.iterdir()]


def test_each_worker_has_its_tf_config_and_an_output_prefix(tmp_path, capfd):
    code = "print(json.dumps(config)); print('bad', file=sys.stderr)"
    assert _launch(tmp_path, code) == ExitCode.DONE
    lines = capfd.readouterr().out.splitlines()
    found = {}
    for number in range(3):
        worker_lines = [x[4:] for x in lines if x.startswith(f"[{number}] ")]
        assert sorted(worker_lines)[0] == "bad" and len(worker_lines) == 2
        found[number] = json.loads(sorted(worker_lines)[1])
        assert found[number]["task"] == {"type": "worker", "index": number}
    clusters = [config["cluster"] for config in found.values()]
    assert clusters[0] == clusters[1] == clusters[2]
    assert len(set(clusters[0]["worker"])) == 3


@pytest.mark.parametrize(
    ("first", "restarts", "starts", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, 2, 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", 0, 1, 137),
        ("sys.exit(1)", 2, 2, 0),
        *((f"sys.exit({code})", 2, 1, code) for code in (2, 42)),
    ],
)
def test_failures_that_may_pass_start_all_again(
    tmp_path, capfd, first, restarts, starts, code
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
    assert _launch(tmp_path, work, max_restarts=restarts) == code
    assert _starts(tmp_path) == [starts] * 3
    stdout = capfd.readouterr().out
    assert "Worker 1 ended with exit code" in stdout
    assert stdout.count("Worker 0 ended with exit code 7.") == 1


def test_restarts_are_limited(tmp_path, capfd):
    assert _launch(tmp_path, "sys.exit(7)", max_restarts=2) == 7
    assert _starts(tmp_path) == [3] * 3
    assert "Restart 2 of 2" in capfd.readouterr().out


def test_workers_that_do_not_end_in_time_are_killed(tmp_path):
    code = "os.kill(os.getpid(), signal.SIGSTOP) if number else sys.exit(7)"
    start_time = time.monotonic()
    assert _launch(tmp_path, code, seconds_to_follow=0.5) == 7
    assert 0.5 < time.monotonic() - start_time < 10


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_comes_once_to_each_worker_and_nothing_starts_again(
    tmp_path, name
):
    code = """
def stop(number, _):
    with log.open("a") as f:
        f.write(signal.Signals(number).name)
    time.sleep(0.3)
    sys.exit(42)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, stop)
with log.open("a") as f:
    f.write("ready\\n")
time.sleep(60)
"""
    launcher = (
        "import launch_local, sys\n"
        f"command = {_command(tmp_path, code)!r}\n"
        "sys.exit(launch_local.launch("
        "command, num_workers=2, max_restarts=1))"
    )
    tools = pathlib.Path(launch_local.__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", launcher],
        env={**os.environ, "PYTHONPATH": f"{tools}:{tools.parent}"},
    )
    logs = [tmp_path / "0", tmp_path / "1"]
    deadline = time.monotonic() + 30
    while not all(x.exists() and "ready" in x.read_text() for x in logs):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.Signals[name])
    assert process.wait(30) == 42
    assert [log.read_text() for log in logs] == [f"start\nready\n{name}"] * 2
