import contextlib
import gc
import os
import signal
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from several_workers import Meeting

from electra_tf.training import training_utils
from electra_tf.util.errors import (
    NonFiniteLossError,
    StoppedBySignal,
    UserError,
)


class _Optimizer:
    def __init__(self):
        self.iterations = tf.Variable(0, dtype=tf.int64)


class _Model:
    """A model whose loss is its step, but NaN at `bad_step`."""

    loss_weights = {"a": 2.0}

    def __init__(self, bad_step=-1):
        self.optimizer = _Optimizer()
        self.bad_step = bad_step

    def update(self, inputs):
        step = self.optimizer.iterations.assign_add(1)
        value = tf.cast(step, tf.float32)
        value = tf.where(step == self.bad_step, np.nan, value)
        return {"a": (value * 3.0, tf.constant(3.0))}


class _Recorder(keras.callbacks.Callback):
    """Records the logs of each stop."""

    def __init__(self, on_step=lambda step: None):
        super().__init__()
        self.logs = {}
        self.on_step = on_step

    def on_epoch_end(self, step, logs):
        self.logs[step] = logs
        self.on_step(step)


def _zeros(step):
    return iter(tf.data.Dataset.from_tensors(0).repeat())


def _train(model, schedule, *, recorder=None, saved=None, **arguments):
    saved = [] if saved is None else saved
    recorder = recorder or _Recorder()
    arguments = {"save": saved.append, "batches": _zeros, **arguments}
    training_utils.train(
        model,
        schedule=schedule,
        callbacks=[recorder],
        **{"strategy": tf.distribute.get_strategy(), **arguments},
    )
    return saved, recorder.logs


def test_blocks_end_at_every_save_and_milestone():
    schedule = training_utils.Schedule(25, 10, 8, frozenset({3}))
    saved, logs = _train(_Model(), schedule)
    assert list(logs) == [1, 3, 8, 10, 16, 20, 24, 25]
    assert saved == [3, 8, 16, 24, 25]


def test_a_callback_can_end_the_training_with_a_checkpoint():
    model = _Model()

    def stop_at_8(step):
        model.stop_training = step == 8

    def save(step):
        saved.append(step)
        model.stop_training = False  # as an evaluation that finds no reason

    recorder, saved = _Recorder(stop_at_8), []
    schedule = training_utils.Schedule(20, 4, 100)
    _, logs = _train(model, schedule, recorder=recorder, save=save)
    assert list(logs) == [1, 4, 8] and saved == [8]
    saved, logs = _train(model, schedule)
    assert list(logs) == [12, 16, 20], "it can be taken up again"


def test_a_loss_that_is_not_finite_stops_before_saving_and_names_the_step():
    saved = []
    schedule = training_utils.Schedule(9, 3, 3)
    with pytest.raises(NonFiniteLossError, match="at step 7"):
        _train(_Model(bad_step=7), schedule, saved=saved)
    assert saved == [3, 6]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
)
def test_a_signal_saves_and_stops_after_the_block(number):
    recorder = _Recorder(
        lambda step: os.kill(os.getpid(), number) if step == 4 else None
    )
    schedule, saved = training_utils.Schedule(20, 4, 100), []
    with pytest.raises(StoppedBySignal) as stopped:
        _train(_Model(), schedule, recorder=recorder, saved=saved)
    assert saved == [4] and stopped.value.step == 4
    assert list(recorder.logs) == [1, 4]


def test_a_signal_while_the_last_step_is_saved_is_heard():
    saved = []

    def save(step):
        saved.append(step)
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedBySignal) as stopped:
        _train(_Model(), training_utils.Schedule(4, 4, 4), save=save)
    assert saved == [4] and stopped.value.step == 4


def test_blocks_end_at_borders_and_data_begin_there():
    schedule = training_utils.Schedule(20, 8, 100, borders=frozenset({5, 16}))
    recorder, opened = _Recorder(), []

    def batches(step):
        opened.append(step)
        return _zeros(step)

    model = _Model()
    for start, expected in ((0, [0, 5, 16]), (5, [5, 16]), (17, [17])):
        model.optimizer.iterations.assign(start)
        _train(model, schedule, recorder=recorder, batches=batches)
        assert opened == expected
        opened.clear()
    assert list(recorder.logs) == [1, 5, 8, 16, 20]


class _Adder:
    """A model whose loss is the sum of a global batch; records its graphs."""

    loss_weights = {"a": 1.0}

    def __init__(self):
        self.optimizer = _Optimizer()
        self.graphs = []

    def update(self, inputs):
        self.graphs.append(tf.compat.v1.get_default_graph())
        replica = tf.distribute.get_replica_context()
        self.optimizer.iterations.assign_add(1)
        total = replica.all_reduce("SUM", tf.reduce_sum(inputs))
        return {"a": (total, tf.constant(1.0))}


def _kinds_of_graphs(graph):
    """Yields the kind of a function's graph and of those around it."""
    while hasattr(graph, "outer_graph"):
        yield type(graph).__name__
        graph = graph.outer_graph


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_interleaved_batches_keep_their_order_and_trace_each_shape_once(
    num_replicas,
):
    devices = [f"CPU:{i}" for i in range(num_replicas)]
    strategy = tf.distribute.MirroredStrategy(devices)
    order = [0, 1, 1, 2, 0, 0, 2, 1, 0, 2]
    lengths = (2, 3, 5)

    def iterator(number):
        def make(context):
            shape = [4 // context.num_replicas_in_sync, lengths[number]]
            dataset = tf.data.Dataset.counter(1).map(
                lambda i: tf.fill(shape, tf.cast(i * 10**number, tf.float32))
            )
            repeats = context.num_replicas_in_sync
            return dataset.flat_map(
                lambda x: tf.data.Dataset.from_tensors(x).repeat(repeats)
            )

        return iter(strategy.distribute_datasets_from_function(make))

    batches = training_utils.InterleavedBatches(
        tuple(iterator(i) for i in range(3)), iter(order)
    )
    with strategy.scope():
        model = _Adder()
    block = training_utils.make_block(model, strategy)
    found = [block(batches, num_steps)["a"][:, 0] for num_steps in (1, 5, 4)]
    num_taken, expected = [0, 0, 0], []
    for index in order:
        num_taken[index] += 1
        expected.append(4 * lengths[index] * num_taken[index] * 10**index)
    assert np.concatenate(found).tolist() == expected
    assert len(model.graphs) == 3 * num_replicas
    for graph in model.graphs:  # a TPU runs no replicas under a condition
        kinds = [*_kinds_of_graphs(graph)]
        assert "WhileBodyFuncGraph" in kinds
        assert "CondBranchFuncGraph" not in kinds


def test_means_are_over_updates_for_the_loss_and_over_weights_for_metrics():
    parts = [
        {"a": np.float32([[2, 1], [0, 0]]), "b": np.float32([[2**24, 1]] * 2)},
        {"a": np.float32([[9, 3]]), "b": np.float32([[1, 1]])},
    ]
    found = training_utils.means(parts, {"a": 2.0})
    assert found["loss"] == pytest.approx(2.0 * (2 / 1 + 0 + 9 / 3) / 3)
    assert found["a"] == (2 + 9) / (1 + 3)
    assert found["b"] == (2 * 2**24 + 1) / 3  # float32 has no such sum
    assert training_utils.losses(parts[1], {"a": 2.0}).dtype == np.float64


def test_a_signal_within_a_block_is_heard():
    class Killer(_Recorder):
        def on_train_batch_end(self, step, logs):
            if step > 1:
                os.kill(os.getpid(), signal.SIGTERM)

    schedule, saved = training_utils.Schedule(10**6, 10**6, 10**6), []
    with pytest.raises(StoppedBySignal) as stopped:
        _train(_Model(), schedule, recorder=Killer(), saved=saved)
    assert saved == [stopped.value.step] and 1 < saved[0] < 10**6


def _train_two_workers(monkeypatch, save, *, stopped_at=None):
    """Trains two workers; the second one receives a signal at a step."""
    meeting, last = Meeting(2), {0: 0, 1: 0}

    class Stop(contextlib.AbstractContextManager):
        def __init__(self):
            self.number = meeting.thread_local.number

        def __exit__(self, *_):
            pass

        @property
        def received(self):
            return self.number == 1 and last[1] == stopped_at

    class Counter(_Recorder):
        def on_train_batch_end(self, step, logs):
            last[meeting.thread_local.number] = step

    def work(number):
        _train(
            _Model(),
            training_utils.Schedule(20, 4, 10),
            save=lambda step: save(number, step),
            recorder=Counter(),
        )

    monkeypatch.setattr(training_utils, "StopSignal", Stop)
    monkeypatch.setattr(training_utils.distribution, "Workers", meeting.workers)
    return meeting.run(work)


def test_a_signal_to_one_worker_stops_all_at_a_step_that_is_saved(monkeypatch):
    saved = {0: [], 1: []}
    monkeypatch.setattr(training_utils, "_SECONDS_PER_PART", 0.0)
    errors = _train_two_workers(
        monkeypatch,
        lambda number, step: saved[number].append(step),
        stopped_at=6,  # inside the block from 4 to 8
    )
    for error in errors:
        assert isinstance(error, StoppedBySignal) and error.step == 6
    assert saved == {0: [6], 1: [6]}


def test_no_worker_goes_on_if_the_chief_cannot_save(monkeypatch):
    def save(number, step):
        if number == 0:
            raise UserError("The disk is full.")

    errors = _train_two_workers(monkeypatch, save)
    assert [type(error) for error in errors] == [UserError] * 2
    assert str(errors[0]) == "The disk is full."
    assert "step 10" in str(errors[1])


@tf.custom_gradient
def _tripled(x):
    return x * 1.0, lambda dy: 3.0 * dy


def _traced_graph():
    """Traces a gradient; returns its value and a weak reference to its graph.

    Nothing else references the function.
    """

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = _tripled(x)
        return tape.gradient(y, x)

    graph = gradient.get_concrete_function(tf.constant(1.0)).graph
    return float(gradient(tf.constant(1.0))), weakref.ref(graph)


def test_a_graph_with_a_custom_gradient_is_freed():
    before = training_utils.custom_gradients()
    with training_utils.freed_graphs():
        value, graph = _traced_graph()
        gc.collect()
        assert graph() is not None  # TensorFlow keeps it
    assert value == 3.0
    assert graph() is None
    assert training_utils.custom_gradients() == before


def test_gradients_from_before_stay_also_after_an_error():
    _traced_graph()
    before = training_utils.custom_gradients()
    with pytest.raises(KeyError), training_utils.freed_graphs():
        _traced_graph()
        raise KeyError
    assert before and training_utils.custom_gradients() == before
