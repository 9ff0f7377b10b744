"""Workers that are killed or stopped, under the launcher."""

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

from electra_tf.util.distribution import SECONDS_OF_SILENCE

pytestmark = pytest.mark.faults

_BOUND = SECONDS_OF_SILENCE + 30


class _Job:
    """A job of two workers under the launcher, and its output."""

    def __init__(self, data_dir, name, *flags, max_restarts=0):
        self.process = subprocess.Popen(
            [
                sys.executable,
                launch_local.__file__,
                "--workers=2",
                f"--max_restarts={max_restarts}",
                "--",
                *command.flags_of(data_dir, name, *flags),
            ],
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

    def kill(self, number, name):
        """Sends a signal to a worker; returns the time."""
        text = "".join(line for _, line in self.lines)
        pid = re.search(rf"Worker {number} is process (\d+)\.", text)[1]
        os.kill(int(pid), signal.Signals[name])
        return time.monotonic()

    def time_of(self, text):
        return next(at for at, line in self.lines if text in line)

    def end(self):
        code = self.process.wait(600)
        self._reader.join()
        return code, "".join(line for _, line in self.lines)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory with an undisturbed run of two workers."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "corpus.txt").write_text(command.text())
    code, output = _Job(directory, "undisturbed").end()
    assert code == 0, output
    return directory


@pytest.mark.parametrize(("name", "lost"), [("SIGKILL", 0), ("SIGSTOP", 1)])
def test_a_job_that_loses_a_worker_ends_with_the_same_bits(
    data_dir, lost, name
):
    """Checkpoints are so frequent that signals often arrive during one."""
    model = f"{name}_{lost}"
    flags = "--save_checkpoints_steps=2"
    job = _Job(data_dir, model, flags, max_restarts=1)
    command.wait_for_step(job.process, data_dir, model, 7)
    at = job.kill(lost, name)
    code, output = job.end()
    assert code == 0, output
    assert f"[{1 - lost}] Lost another worker" in output
    ended = job.time_of(f"Worker {1 - lost} ended with exit code 7.")
    assert ended - at < _BOUND
    assert "Traceback" not in output and "Restart 1 of 1" in output
    expected = command.tensors(data_dir, "undisturbed")
    tiny.assert_same(command.tensors(data_dir, model), expected)


def test_a_signal_to_the_launcher_stops_all_with_a_checkpoint(data_dir):
    name = "SIGTERM"
    job = _Job(data_dir, name, max_restarts=1)
    command.wait_for_step(job.process, data_dir, name, 5)
    job.process.send_signal(signal.SIGTERM)
    code, output = job.end()
    assert code == 42, output
    assert "Restart" not in output and "Traceback" not in output
    found = re.findall(r"checkpoint of step (\d+) is saved", output)
    assert len(found) == 2 and len(set(found)) == 1
    model_dir = data_dir / "models" / name
    assert (model_dir / f"model.ckpt-{found[0]}.index").exists()


def test_a_worker_with_an_error_of_its_own_ends_all(tmp_path):
    """The chief has no text to build records from."""
    job = _Job(tmp_path, "textless", max_restarts=1)
    code, output = job.end()
    assert code == 2, output
    assert "[1] Lost another worker" in output
    assert job.time_of("Worker 1 ended with exit code 7.")
    assert "Traceback" not in output and "Restart" not in output
