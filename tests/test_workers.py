"""Workers that agree, are killed or stopped, under the launcher."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import launch_local
import pretraining_command as command
import pytest
import tiny

from electra_tf.util import distribution
from electra_tf.util.errors import ExitCode

_BOUND = distribution.SECONDS_OF_SILENCE + 30


class _Job:
    """A job of two workers under the launcher, and its output."""

    def __init__(self, data_dir, name, *flags):
        words = command.flags_of(data_dir, name, *flags)
        self.process = subprocess.Popen(
            [sys.executable, launch_local.__file__]
            + ["--workers=2", "--max_restarts=1", "--", *words],
            env=command.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        with self.process.stdout as output:
            for line in output:
                self.lines.append((time.monotonic(), line))

    def output(self):
        return "".join(line for _, line in self.lines)

    def kill(self, number, name):
        """Sends a signal to a worker; returns the time."""
        found = re.search(rf"Worker {number} is process (\d+)\.", self.output())
        os.kill(int(found[1]), signal.Signals[name])
        return time.monotonic()

    def time_of(self, text):
        return next(at for at, line in self.lines if text in line)

    def end(self, code):
        """Waits for the exit code; returns the output."""
        found = self.process.wait(600)
        self._reader.join()
        output = self.output()
        assert found == code, output
        assert "Traceback" not in output
        return output


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with an undisturbed run of two workers."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(command.text())
    _Job(directory, "undisturbed", "--do_eval").end(0)
    return directory


def _evaluated(data_dir, name):
    path = data_dir / f"models/{name}/results/pretraining_eval.json"
    return json.loads(path.read_text())


_TWO_REPLICAS = """
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
import runpy
runpy.run_module("electra_tf.run_pretraining", run_name="__main__")
"""


@pytest.mark.slow
def test_two_workers_end_with_the_bits_of_two_replicas(data_dir):
    flags = ("--strategy=mirrored", "--do_eval")
    flags = command.flags_of(data_dir, "replicas", *flags)
    words = [sys.executable, "-c", _TWO_REPLICAS, *flags]
    subprocess.run(words, env=command.environment(), check=True)
    names = ("undisturbed", "replicas")
    tiny.assert_same(*(command.tensors(data_dir, name) for name in names))
    results = [_evaluated(data_dir, name) for name in names]
    assert results[0] == results[1]


@pytest.mark.slow
def test_workers_of_unequal_settings_end_before_an_update(data_dir, capfd):
    words = command.words_of(data_dir, "unequal")
    words = ["bash", "-c", 'exec "$@" --seed=$$', "-", *words]
    assert launch_local.launch(words, num_workers=2) == ExitCode.BAD_INPUT
    lines = capfd.readouterr().out.splitlines()
    named = {line[:3] for line in lines if "seed" in line}
    assert named == {"[0]", "[1]"}
    assert not command.log(data_dir, "unequal")


@pytest.mark.faults
@pytest.mark.parametrize(("name", "lost"), [("SIGKILL", 0), ("SIGSTOP", 1)])
def test_a_job_that_loses_a_worker_ends_with_the_same_bits(
    data_dir, lost, name
):
    """Checkpoints are so frequent that signals often arrive during one."""
    job = _Job(data_dir, name, "--save_checkpoints_steps=2")
    command.wait_for_step(job.process, data_dir, name, 7)
    at = job.kill(lost, name)
    output = job.end(0)
    assert f"[{1 - lost}] Lost another worker" in output
    ended = job.time_of(f"Worker {1 - lost} ended with exit code 7.")
    assert ended - at < _BOUND
    assert "Restart 1 of 1" in output
    expected = command.tensors(data_dir, "undisturbed")
    tiny.assert_same(command.tensors(data_dir, name), expected)


@pytest.mark.faults
@pytest.mark.parametrize("receiver", ["worker", "launcher"])
def test_a_signal_stops_all_with_a_checkpoint(data_dir, receiver):
    job = _Job(data_dir, receiver)
    command.wait_for_step(job.process, data_dir, receiver, 5)
    if receiver == "worker":
        job.kill(1, "SIGTERM")
    else:
        job.process.send_signal(signal.SIGTERM)
    output = job.end(ExitCode.STOPPED_BY_SIGNAL)
    assert "Restart" not in output
    found = re.findall(r"checkpoint of step (\d+) is saved", output)
    assert len(found) == 2 and len(set(found)) == 1
    path = data_dir / f"models/{receiver}/model.ckpt-{found[0]}.index"
    assert path.exists()


@pytest.mark.faults
def test_a_worker_with_an_error_of_its_own_ends_all(tmp_path):
    """The chief has no text to build records from."""
    output = _Job(tmp_path, "textless").end(ExitCode.BAD_INPUT)
    assert "[1] Lost another worker" in output
    assert "Worker 1 ended with exit code 7." in output
    assert "Restart" not in output
