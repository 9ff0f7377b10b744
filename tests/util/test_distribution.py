"""Strategies, and workers that wait for, compare and lose each other."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf
import tiny
from launch_local import free_ports
from several_workers import Meeting

from electra_tf.util import distribution
from electra_tf.util.errors import LostWorkerError, UserError


@pytest.fixture
def tf_config(monkeypatch):
    """Returns a function that sets TF_CONFIG."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return lambda text: monkeypatch.setenv("TF_CONFIG", text)


@pytest.mark.slow
def test_signals_are_heard_although_tensorflow_has_its_own_handler():
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(1)]}
    task = {"type": "worker", "index": 0}
    code = (
        "import os, signal\n"
        "from electra_tf.util import console, distribution\n"
        "with console.interruptible():\n"
        "    distribution.make_strategy('multi_worker')\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    signal.pause()\n"
    )
    config = json.dumps({"cluster": cluster, "task": task})
    completed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TF_CONFIG": config},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Interrupted: Stopped by a signal" in completed.stderr


def _product(value):
    return lambda x, y: tf.fill([64, 64], tf.constant(value, tf.bfloat16))


@pytest.mark.parametrize(
    ("value", "is_rounded"), [(1 + 19 / 128, True), (1 + 18 / 128, False)]
)
def test_has_bfloat16_tells_whether_products_are_rounded(
    monkeypatch, capsys, value, is_rounded
):
    monkeypatch.setattr(tf, "matmul", _product(value))
    found = distribution.has_bfloat16.__wrapped__()
    assert found == is_rounded
    warning = capsys.readouterr().err
    assert bool(warning) != is_rounded


def test_a_worker_counts_once_however_many_replicas_it_has():
    rows = np.float32([[2**24 - 1, 0, 7]])
    total = distribution.Workers(tiny.replicas(3))._sum(rows)
    np.testing.assert_array_equal(total, rows)


def _check_in_threads(*values):
    meeting = Meeting(len(values))
    one = tf.distribute.get_strategy()
    return meeting.run(
        lambda i: meeting.workers(one).check_same_values(values[i])
    )


def _cluster(number=2, index=0):
    workers = [f"localhost:{port}" for port in free_ports(number)]
    return {
        "cluster": {"worker": workers},
        "task": {"type": "worker", "index": index},
    }


def test_strategies_follow_their_name_and_tf_config(tf_config):
    one = tf.distribute.get_strategy()
    for name in ("one", "auto"):
        assert distribution.make_strategy(name) is one
    assert distribution.is_chief(one) and distribution.worker(one) == (0, 1)
    assert distribution.make_strategy("mirrored").num_replicas_in_sync == 4
    with pytest.raises(UserError):
        distribution.make_strategy("multi_worker")
    with pytest.raises((ValueError, tf.errors.OpError)):
        distribution.make_strategy("tpu")


@pytest.mark.parametrize(
    ("task", "number"),
    [(("chief", 0), 0), (("worker", 0), 1), (("worker", 1), 2)],
)
def test_the_chief_is_the_first_of_all_workers(tf_config, task, number):
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "ps": ["d:1"]}
    task = {"type": task[0], "index": task[1]}
    tf_config(json.dumps({"cluster": jobs, "task": task}))
    addresses = distribution._addresses()
    assert [*addresses.values()] == ["a:1", "b:1", "c:1"]
    assert distribution._own_index() == number


def _join(addresses, seconds, delays):
    """Starts workers after delays, None never; returns their errors."""
    meeting = threading.Barrier(len(delays) - delays.count(None), timeout=10)

    def one(number):
        time.sleep(delays[number])
        distribution._wait_for_all(addresses, number, seconds)
        port = int(addresses[number].rpartition(":")[2])
        with socket.create_server(("localhost", port)):  # as TensorFlow does
            meeting.wait()

    with futures.ThreadPoolExecutor() as pool:
        waiting = [
            pool.submit(one, number)
            for number, delay in enumerate(delays)
            if delay is not None
        ]
    return [future.exception() for future in waiting]


def test_workers_wait_for_each_other_for_a_stated_time(monkeypatch):
    monkeypatch.setattr(distribution, "_SECONDS_BETWEEN_TRIES", 0.02)
    addresses = _cluster(3)["cluster"]["worker"]
    assert _join(addresses, 10, [0, 0.3, 0]) == [None] * 3
    for error in _join(addresses, 0.5, [0, None, 0]):
        assert isinstance(error, LostWorkerError)
        assert addresses[1] in str(error)


@pytest.mark.parametrize(
    ("text", "several", "is_lost"),
    [
        ("sending heartbeats: /job:worker/replica:0/task:1", True, True),
        ("Collective ops is aborted", True, True),
        ("Collective ops is aborted", False, False),
        ("gs://bucket/model.ckpt: 503", True, False),
    ],
)
def test_an_error_about_another_worker_means_it_is_lost(
    tf_config, text, several, is_lost
):
    tf_config(json.dumps(_cluster(2 if several else 1)))
    expected = LostWorkerError if is_lost else tf.errors.UnavailableError
    with pytest.raises(expected), distribution.naming_lost_workers():
        raise tf.errors.UnavailableError(None, None, text)


@pytest.mark.parametrize(
    ("sizes", "fitting", "others"),
    [([12], (4, 3), (5, 1)), ([64, 24], (4, 2), (8, 2))],
)
def test_replicas_share_each_batch_equally(sizes, fitting, others):
    distribution.check_division(sizes, *fitting)
    with pytest.raises(UserError):
        distribution.check_division(sizes, *others)
    with pytest.raises(UserError):
        distribution.check_division(sizes, *fitting, group_size=8)


def test_workers_that_differ_all_end_and_name_what_differs():
    same = {"rate": "0.1", "size": "8", "seed": "0"}
    assert _check_in_threads(same, same) == [None] * 2
    errors = _check_in_threads(same, same, same | {"rate": "0.2", "seed": "1"})
    for error in errors:
        assert isinstance(error, UserError) and "size" not in str(error)
        assert "rate" in str(error) and "seed" in str(error)
    for error in _check_in_threads({"a": "1"}, {"a": "1", "new": "2"}):
        assert isinstance(error, UserError)
