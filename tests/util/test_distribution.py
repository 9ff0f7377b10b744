import json
import os
import subprocess
import sys
import types

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


def test_strategies_follow_their_name_and_tf_config(tf_config):
    one = tf.distribute.get_strategy()
    assert distribution.make_strategy("one") is one
    assert distribution.make_strategy("auto") is one
    assert distribution.is_chief(one) and distribution.worker(one) == (0, 1)
    assert distribution.make_strategy("mirrored").num_replicas_in_sync == 4
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    tf_config(json.dumps({"cluster": cluster}))
    assert distribution._choose_strategy() == "multi_worker"


@pytest.mark.parametrize(
    ("name", "message"),
    [("multi_worker", "TF_CONFIG in every worker"), ("tpu", "--strategy=auto")],
)
def test_missing_requirements_of_a_strategy_are_explained(
    tf_config, name, message
):
    with pytest.raises(UserError, match=message):
        distribution.make_strategy(name)


@pytest.fixture
def tpu(monkeypatch):
    """Stands for the TPU of this machine; lists what is initialized."""
    tpu = types.SimpleNamespace(initialized=[], num_hosts=1)
    resolvers = tf.distribute.cluster_resolver
    monkeypatch.setattr(resolvers, "TPUClusterResolver", lambda name: [name])
    monkeypatch.setattr(
        tf.config, "experimental_connect_to_cluster", lambda _: None
    )
    monkeypatch.setattr(
        tf.tpu.experimental, "initialize_tpu_system", tpu.initialized.append
    )
    monkeypatch.setattr(
        tf.distribute,
        "TPUStrategy",
        lambda _: types.SimpleNamespace(extended=tpu),
    )
    yield tpu
    distribution._tpu.cache_clear()


def test_a_tpu_is_initialized_once(tpu):
    """A second initialization would clear the variables it holds."""
    strategies = [distribution.make_strategy("tpu") for _ in range(2)]
    assert strategies[0] is strategies[1]
    assert len(tpu.initialized) == 1


def test_a_tpu_of_several_hosts_is_refused(tpu):
    tpu.num_hosts = 2
    with pytest.raises(UserError, match="one host.*Received: 2 hosts"):
        distribution.make_strategy("tpu")


@pytest.mark.parametrize(
    ("batch_sizes", "num_steps", "group_size"),
    [([12], 1, 1), ([12], 2, 2), ([64, 24], 2, 1), ([6], 4, 1), ([6], 3, 4)],
)
def test_batches_that_cannot_be_divided_name_the_numbers_that_can(
    batch_sizes, num_steps, group_size
):
    fitting = [
        n
        for n in range(1, 65)
        if all(x % (n * num_steps * group_size) == 0 for x in batch_sizes)
    ]
    listed = ", ".join(map(str, fitting))
    way_out = f"be {listed}." if fitting else "change --train_batch_size."
    for n in range(1, 65):
        try:
            distribution.check_division(
                batch_sizes, n, num_steps, group_size=group_size
            )
        except UserError as error:
            assert n not in fitting and str(error).endswith(way_out)
        else:
            assert n in fitting


_ARITHMETIC = """
import tensorflow as tf
from electra_tf.util import distribution

def state():
    try:  # only determinism wants a seed
        tf.random.uniform([1])
        is_deterministic = False
    except RuntimeError:
        is_deterministic = True
    rounds = tf.config.experimental.tensor_float_32_execution_enabled()
    return rounds, is_deterministic

states = [state()]
for tensor_float_32, deterministic in ((True, False), (False, True)):
    distribution.set_arithmetic(
        tensor_float_32=tensor_float_32, deterministic=deterministic
    )
    states.append(state())
print(states)
"""


@pytest.mark.slow
def test_arithmetic_is_tensorflows_default_unless_set():
    completed = subprocess.run(
        [sys.executable, "-c", _ARITHMETIC],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [(True, False), (True, False), (False, True)]
    assert completed.stdout.strip() == str(expected)


def _tf_config_of(task):
    cluster = {"worker": ["host0:2222", "host1:2222"]}
    return json.dumps({"cluster": cluster, "task": task})


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("{", "invalid JSON"),
        ("[]", "not a dictionary"),
        ('{"cluster": "host:1"}', "`cluster` is 'host:1'"),
        ('{"cluster": {"worker": "host:1"}}', "'worker' in `cluster` is 'h"),
        ('{"cluster": {"chief": ["host"]}}', "'chief' in `cluster` is ..host"),
        (_tf_config_of(None), "`task` is None"),
        (_tf_config_of({"index": 0}), "`type` in `task` is None"),
        (
            _tf_config_of({"type": "boss", "index": 0}),
            "`type` in `task` is 'boss'",
        ),
        (_tf_config_of({"type": "worker"}), "`index` in `task` is None"),
        (
            _tf_config_of({"type": "worker", "index": "0"}),
            "`index` in `task` is '0",
        ),
        (
            _tf_config_of({"type": "worker", "index": 2}),
            "2, with 2 workers .* 'worker'",
        ),
        (_tf_config_of({"type": "worker", "index": -1}), "is -1, with 2"),
        (
            _tf_config_of({"type": "chief", "index": 0}),
            "0, with 0 workers .* 'chief'",
        ),
    ],
)
@pytest.mark.parametrize("name", ["auto", "multi_worker"])
def test_a_broken_tf_config_is_explained(tf_config, name, text, received):
    tf_config(text)
    with pytest.raises(UserError, match=f"JSON dictionary.*ed: .*{received}"):
        distribution.make_strategy(name)


@pytest.mark.slow
def test_signals_are_heard_although_tensorflow_has_its_own_handler():
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(1)]}
    task = {"type": "worker", "index": 0}
    code = (
        "import os, signal\n"
        "from electra_tf.util import distribution, signals\n"
        "with signals.interruptible():\n"
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


def test_a_silent_worker_is_lost_after_the_heartbeat_timeout(
    tf_config, monkeypatch
):
    tf_config(_tf_config_of({"type": "worker", "index": 0}))
    given = {}
    context = types.SimpleNamespace(
        configure_coordination_service=given.update,
        coordination_service=types.SimpleNamespace(),
    )
    for module, name, fake in (
        (distribution.cluster, "wait_for_all", lambda *_: None),
        (distribution.context, "context", lambda: context),
        (distribution, "_disable_graph_optimizer_on_cpu", lambda: None),
        (tf.distribute, "MultiWorkerMirroredStrategy", lambda: None),
    ):
        monkeypatch.setattr(module, name, fake)
    distribution.make_strategy("multi_worker", heartbeat_timeout=50)
    assert given["heartbeat_timeout_in_ms"] == 50_000


def _raise_unavailable(text):
    with distribution.naming_lost_workers():
        raise tf.errors.UnavailableError(None, None, text)


def test_errors_about_workers_are_explained_and_others_are_not(tf_config):
    silent = "(stopped sending heartbeats):\n/job:worker/replica:0/task:1\n"
    with pytest.raises(tf.errors.UnavailableError):
        _raise_unavailable(silent)  # there are no workers
    tf_config(_tf_config_of({"type": "worker", "index": 0}))
    with pytest.raises(
        LostWorkerError, match="Lost worker 1 at host1:2222: it"
    ):
        _raise_unavailable(silent)
    with pytest.raises(tf.errors.UnavailableError):
        _raise_unavailable("gs://bucket/model.ckpt: 503")
    with pytest.raises(UserError):
        with distribution.naming_lost_workers():
            raise UserError("/job:worker/replica:0/task:1")


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
    assert ("computed in float32" in warning) != is_rounded


def test_workers_of_equal_values_continue():
    workers = distribution.Workers(tf.distribute.get_strategy())
    assert workers.any(True, False) == (True, False)
    workers.check_same_values({"a": "1"})
    distribution.barrier(tf.distribute.get_strategy())
    assert _check_in_threads(*[{"a": "1", "b": "2"}] * 2) == [None] * 2


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


def test_workers_that_differ_all_end_and_name_what_differs():
    same = {"rate": "0.1", "size": "8", "seed": "0"}
    errors = _check_in_threads(same, same, same | {"rate": "0.2", "seed": "1"})
    for number, error in enumerate(errors):
        assert isinstance(error, UserError)
        rate = {2: "0.2"}.get(number, "0.1")
        text = f"worker 2: another rate (here '{rate}'), another seed"
        assert text in str(error) and f"this is worker {number}" in str(error)
        assert "size" not in str(error) and "worker 1:" not in str(error)


def test_a_worker_of_another_version_is_named():
    errors = _check_in_threads({"a": "1"}, {"a": "1", "new": "2"})
    for error in errors:
        assert "worker 1: another version of electra_tf" in str(error)


def test_any_worker_can_set_a_flag():
    meeting = Meeting(2)
    one = tf.distribute.get_strategy()
    answers = meeting.run(
        lambda i: meeting.workers(one).any(i == 1, False, True)
    )
    assert answers == [(True, False, True)] * 2


@pytest.mark.parametrize(
    ("choice", "has_accelerator", "expected"),
    [
        ("true", False, True),
        ("false", True, False),
        ("auto", False, False),
        ("auto", True, True),
    ],
)
def test_updates_compile_on_accelerators_or_on_request(
    monkeypatch, choice, has_accelerator, expected
):
    monkeypatch.setattr(
        distribution, "has_accelerator", lambda: has_accelerator
    )
    assert distribution.compiles_updates(choice) is expected
