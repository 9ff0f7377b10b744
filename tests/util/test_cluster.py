"""Workers, here threads, wait for each other and name missing ones."""

import contextlib
import json
import re
import socket
import threading
import time
from concurrent import futures

import pytest
from launch_local import free_ports

from electra_tf.util import cluster
from electra_tf.util.errors import ExitCode, LostWorkerError, UserError, explain


def _workers(number):
    return [
        cluster.Worker("worker", i, f"localhost:{port}")
        for i, port in enumerate(free_ports(number))
    ]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(cluster, "_SECONDS_BETWEEN_TRIES", 0.02)
    monkeypatch.setattr(cluster.console, "SECONDS_BETWEEN_LOGS", 0.1)


def _join(everyone, join_timeout, delays):
    """Starts workers after delays, None never; returns their errors."""
    meeting = threading.Barrier(len(delays) - delays.count(None), timeout=10)

    def one(number):
        time.sleep(delays[number])
        cluster.wait_for_all(everyone, number, join_timeout)
        port = int(everyone[number].address.rpartition(":")[2])
        with socket.create_server(("localhost", port)):  # as TensorFlow does
            meeting.wait()

    with futures.ThreadPoolExecutor() as pool:
        waiting = [
            pool.submit(one, number)
            for number, delay in enumerate(delays)
            if delay is not None
        ]
    return [future.exception() for future in waiting]


def test_waiting_workers_name_the_missing_one(capsys):
    everyone = _workers(3)
    assert _join(everyone, 10, [0, 0.5, 0]) == [None] * 3
    message = capsys.readouterr().out
    who = f"worker 1 at {everyone[1].address}"
    assert re.search(rf"Waiting for {who} \(\d s of 10\)\.", message)


def test_missing_workers_are_named_after_the_timeout():
    everyone = _workers(4)
    start = time.monotonic()
    errors = _join(everyone, 0.5, [0, None, 0, None])
    assert 0.5 < time.monotonic() - start < 8
    assert len(errors) == 2
    for error in errors:
        assert isinstance(error, LostWorkerError)
        code, text = explain(error)
        assert code == ExitCode.LOST_WORKER == 7
        one, three = everyone[1].address, everyone[3].address
        named = f"no answer from worker 1 at {one}, worker 3 at {three}. Start"
        assert "within 0.5 seconds" in text and named in text


def test_a_port_that_another_process_has_is_named():
    everyone = _workers(2)
    port = int(everyone[1].address.rpartition(":")[2])
    with (
        socket.create_server(("", port)),
        pytest.raises(UserError, match=f"port of localhost:{port}.*number 1,"),
    ):
        cluster.wait_for_all(everyone, 1, 10)


_SILENT = """The following tasks are unhealthy (stopped sending heartbeats):
/job:worker/replica:0/task:1
The tasks have crashed."""
_LATE = """# of tasks that reached the barrier: 2/3.
The first task at the barrier: /job:chief/replica:0/task:0. \
Some timed out task names:
/job:worker/replica:0/task:1
while calling /tensorflow.CoordinationService/RegisterTask"""
_TWO = _SILENT.replace("task:1", "task:1\n/job:chief/replica:0/task:0")


@pytest.mark.parametrize(
    ("text", "closed", "named"),
    [
        (_SILENT, [], [2]),
        (_SILENT.replace("task:1", "task:11"), [], []),
        (_TWO, [2], [0, 2]),
        (_LATE, [], [2]),
        ("from remote target /job:worker/replica:0/task:1: x", [0, 2], [2]),
        ("from remote target /job:worker/replica:0/task:1: x", [0], [0]),
        ("from remote target /job:worker/replica:0/task:1: x", [], [2]),
        ("RPC: /tensorflow.CoordinationService/Heartbeat", [2], [0]),
        ("Collective ops is aborted", [0], [0]),
        ("Collective ops is aborted by /job:worker/replica:0/task:0", [], []),
    ],
)
def test_a_lost_worker_is_recognized_by_heartbeat_or_port(text, closed, named):
    """The caller is number 1, the worker of index 0."""
    ports = free_ports(3)
    kinds = [("chief", 0), ("worker", 0), ("worker", 1)]
    everyone = [
        cluster.Worker(*kind, f"localhost:{port}")
        for kind, port in zip(kinds, ports, strict=True)
    ]
    with contextlib.ExitStack() as stack:
        for number in {0, 1, 2} - set(closed):
            where = ("localhost", ports[number])
            stack.enter_context(socket.create_server(where))
        code, message = explain(cluster.lost_worker_error(everyone, 1, text))
    assert code == ExitCode.LOST_WORKER
    for number in range(3):
        who = f"worker {number} at {everyone[number].address}"
        assert (who in message) == (number in named)
    assert ("Lost another worker: it" in message) == (not named)


@pytest.mark.parametrize(
    ("task", "number"),
    [(("chief", 0), 0), (("worker", 0), 1), (("worker", 1), 2)],
)
def test_the_chief_is_the_first_of_all_workers(monkeypatch, task, number):
    lists = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "ps": ["d:1"]}
    task = {"type": task[0], "index": task[1]}
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": lists, "task": task})
    )
    assert [each.address for each in cluster.workers()] == ["a:1", "b:1", "c:1"]
    assert cluster.own_index() == number
    own = f"/job:{task['type']}/replica:0/task:{task['index']}"
    assert cluster.workers()[number].task == own
