"""Soak tests: progress, errors of clients, and the report."""

import json
import subprocess
import sys

import pytest
import soak

from electra_tf.util.errors import UserError


def test_a_soak_without_a_length_is_refused():
    with pytest.raises(UserError, match="length=0"):
        soak.SoakConfig()


def test_the_last_whole_line_of_a_log_tells_the_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert soak.last_step(path) == 0
    path.write_text('{"step": 5}\n{"step": 10}\n{"st')
    assert soak.last_step(path) == 10


def test_clients_count_errors_and_ask_again():
    connections = []

    def connect():
        connections.append(len(connections))
        fails = len(connections) == 1

        def ask(text):
            if fails:
                raise ConnectionResetError

        return ask

    clients = soak.Clients(connect)
    ask = clients.connect()
    for _ in range(3):
        ask("a text")
    assert clients.num_done == 3
    assert clients.errors == {"ConnectionResetError": 1}
    assert len(connections) == 2


def test_a_command_that_fails_is_told_with_its_exit_code(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "raise SystemExit(5)"]
    )
    with pytest.raises(UserError, match="Received: 5 from"):
        soak._wait_for_success(process)


def test_a_command_whose_watch_fails_has_ended(tmp_path, monkeypatch):
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    )
    monkeypatch.setattr(soak, "_start_command", lambda *_: process)
    config = soak.SoakConfig(length=1, seconds_between_samples=0.01)
    with pytest.raises(ZeroDivisionError):
        soak._watch_command(config, tmp_path, ["x"], lambda: 1 / 0)
    assert process.returncode is not None


_COMMAND = """
import pathlib, sys, time
log = pathlib.Path("models/soak/metrics.jsonl")
log.parent.mkdir(parents=True)
with log.open("w") as file:
    for step in range(1, 61):
        print('{"step": %d}' % step, file=file, flush=True)
        time.sleep(0.02)
"""


@pytest.mark.slow
def test_a_short_soak_reports(capsys, tmp_path, monkeypatch):
    def start(directory, *words):
        assert words[0] == "run_pretraining"
        command = [sys.executable, "-S", "-c", _COMMAND]
        return subprocess.Popen(command, cwd=directory)

    monkeypatch.setattr(soak, "_start_command", start)
    config = soak.SoakConfig(
        what="updates",
        length=60,
        directory=str(tmp_path),
        seconds_between_samples=0.02,
    )
    soak.main(config)
    report = json.loads(capsys.readouterr().out)
    assert report["soak"] == "updates"
    assert report["open_files"]["min"] > 2
    slope = report["memory_mb_per_1000"]
    assert slope["low"] <= slope["value"] <= slope["high"]
