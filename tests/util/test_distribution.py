"""Strategies, and workers that wait for, compare and lose each other."""

import json
import socket
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


def _tf_config(jobs, job="worker", index=0):
    task = {"type": job, "index": index}
    return json.dumps({"cluster": jobs, "task": task})


def test_a_worker_counts_once_however_many_replicas_it_has():
    rows = np.float32([[2**24 - 1, 0, 7]])
    total = distribution.Workers(tiny.replicas(3))._sum(rows)
    np.testing.assert_array_equal(total, rows)


def test_strategies_follow_their_name(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
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
def test_the_chief_is_the_first_of_all_workers(monkeypatch, task, number):
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "ps": ["d:1"]}
    monkeypatch.setenv("TF_CONFIG", _tf_config(jobs, *task))
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

    numbers = [i for i, delay in enumerate(delays) if delay is not None]
    with futures.ThreadPoolExecutor() as pool:
        waiting = [pool.submit(one, number) for number in numbers]
    return [future.exception() for future in waiting]


def test_workers_wait_for_each_other_for_a_stated_time(monkeypatch):
    monkeypatch.setattr(distribution, "_SECONDS_BETWEEN_TRIES", 0.02)
    addresses = [f"localhost:{port}" for port in free_ports(3)]
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
    monkeypatch, text, several, is_lost
):
    workers = ["a:1", "b:1"] if several else ["a:1"]
    monkeypatch.setenv("TF_CONFIG", _tf_config({"worker": workers}))
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


def _check_in_threads(*values):
    meeting = Meeting(len(values))
    one = tf.distribute.get_strategy()
    return meeting.run(
        lambda i: meeting.workers(one).check_same_values(values[i])
    )


def test_workers_that_differ_all_end_and_name_what_differs():
    same = {"rate": "0.1", "size": "8", "seed": "0"}
    assert _check_in_threads(same, same) == [None] * 2
    errors = _check_in_threads(same, same, same | {"rate": "0.2", "seed": "1"})
    for error in errors:
        assert isinstance(error, UserError) and "size" not in str(error)
        assert "rate" in str(error) and "seed" in str(error)
    for error in _check_in_threads({"a": "1"}, {"a": "1", "new": "2"}):
        assert isinstance(error, UserError)
