import contextlib
import gc
import os
import signal
import types
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from several_workers import Meeting

from electra_tf.training import training_utils
from electra_tf.util.errors import (
    NonFiniteLossError,
    StoppedBySignal,
    UserError,
)


class _Model:
    """A model whose loss is its step, but NaN at `bad_step`."""

    loss_weights = {"a": 2.0}

    def __init__(self, bad_step=-1):
        step = tf.Variable(0, dtype=tf.int64)
        self.optimizer = types.SimpleNamespace(iterations=step)
        self.bad_step = bad_step

    def update(self, inputs):
        step = self.optimizer.iterations.assign_add(1)
        value = tf.cast(step, tf.float32)
        value = tf.where(step == self.bad_step, np.nan, value)
        return {"a": (value * 3.0, tf.constant(3.0))}


def _nothing(step):
    pass


class _Recorder(keras.callbacks.Callback):
    """Records the steps at which blocks end."""

    def __init__(self, on_block=_nothing, on_part=_nothing):
        super().__init__()
        self.steps = []
        self.on_block, self.on_part = on_block, on_part

    def on_train_batch_end(self, step, logs):
        self.on_part(step)

    def on_epoch_end(self, step, logs):
        self.steps.append(step)
        self.on_block(step)


def _zeros(step):
    return iter(tf.data.Dataset.from_tensors(0).repeat())


def _train(model, schedule, *, recorder=None, saved=None, **arguments):
    """Trains; returns the steps that are saved and those of the stops."""
    saved = [] if saved is None else saved
    recorder = recorder or _Recorder()
    arguments = {"save": saved.append, "batches": _zeros, **arguments}
    training_utils.train(
        model,
        schedule=training_utils.Schedule(*schedule),
        callbacks=[recorder],
        strategy=tf.distribute.get_strategy(),
        **arguments,
    )
    return saved, recorder.steps


def test_blocks_end_at_every_save_and_milestone():
    saved, steps = _train(_Model(), (25, 10, 8, frozenset({3})))
    assert steps == [1, 3, 8, 10, 16, 20, 24, 25]
    assert saved == [3, 8, 16, 24, 25]


def test_a_callback_can_end_the_training_with_a_checkpoint():
    model, saved, schedule = _Model(), [], (20, 4, 100)

    def stop_at_8(step):
        model.stop_training = step == 8

    def save(step):
        saved.append(step)
        model.stop_training = False  # as an evaluation that finds no reason

    recorder = _Recorder(stop_at_8)
    _, steps = _train(model, schedule, recorder=recorder, save=save)
    assert steps == [1, 4, 8] and saved == [8]
    _, steps = _train(model, schedule)
    assert steps == [12, 16, 20], "it can be taken up again"


def test_a_loss_that_is_not_finite_stops_before_saving_and_names_the_step():
    saved = []
    with pytest.raises(NonFiniteLossError, match="at step 7"):
        _train(_Model(bad_step=7), (9, 3, 3), saved=saved)
    assert saved == [3, 6]


def _kill(step, number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
)
def test_a_signal_saves_and_stops_after_the_block(number):
    recorder = _Recorder(lambda step: step == 4 and _kill(step, number))
    saved = []
    with pytest.raises(StoppedBySignal) as stopped:
        _train(_Model(), (20, 4, 100), recorder=recorder, saved=saved)
    assert saved == [4] and stopped.value.step == 4
    assert recorder.steps == [1, 4]


def test_a_signal_while_the_last_step_is_saved_is_heard():
    with pytest.raises(StoppedBySignal) as stopped:
        _train(_Model(), (4, 4, 4), save=_kill)
    assert stopped.value.step == 4


def test_a_signal_within_a_block_is_heard():
    recorder = _Recorder(on_part=lambda step: step > 1 and _kill(step))
    saved = []
    with pytest.raises(StoppedBySignal) as stopped:
        _train(_Model(), (10**6,) * 3, recorder=recorder, saved=saved)
    assert saved == [stopped.value.step] and 1 < saved[0] < 10**6


def test_blocks_end_at_borders_and_data_begin_there():
    schedule = (20, 8, 100, frozenset(), frozenset({5, 16}))
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
    assert {*recorder.steps} == {1, 5, 8, 16, 20}


class _Adder(_Model):
    """A model whose loss is the sum of a global batch; records its graphs."""

    def __init__(self):
        super().__init__()
        self.graphs = []

    def update(self, inputs):
        self.graphs.append(tf.compat.v1.get_default_graph())
        replica = tf.distribute.get_replica_context()
        self.optimizer.iterations.assign_add(1)
        total = replica.all_reduce("SUM", tf.reduce_sum(inputs))
        return {"a": (total, tf.constant(1.0))}


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_interleaved_batches_keep_their_order_and_trace_each_shape_once(
    num_replicas,
):
    strategy = tiny.replicas(num_replicas)
    order = [0, 1, 1, 2, 0, 0, 2, 1, 0, 2]
    lengths = (2, 3, 5)

    def iterator(number):
        def make(context):
            replicas = context.num_replicas_in_sync
            shape = [4 // replicas, lengths[number]]
            dataset = tf.data.Dataset.counter(1).map(
                lambda i: tf.fill(shape, tf.cast(i * 10**number, tf.float32))
            )
            return dataset.flat_map(
                lambda x: tf.data.Dataset.from_tensors(x).repeat(replicas)
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
        kinds = []
        while hasattr(graph, "outer_graph"):
            kinds.append(type(graph).__name__)
            graph = graph.outer_graph
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


def _train_two_workers(monkeypatch, save, *, stopped_at=None):
    """Trains two workers; the second one is to stop at a step."""
    meeting = Meeting(2)
    no_signal = types.SimpleNamespace(received=False)
    no_signals = contextlib.nullcontext(no_signal)  # threads receive none
    monkeypatch.setattr(training_utils, "StopSignal", lambda: no_signals)
    monkeypatch.setattr(training_utils.distribution, "Workers", meeting.workers)
    monkeypatch.setattr(training_utils, "_SECONDS_PER_PART", 0.0)

    def work(number):
        model = _Model()

        def stop(step):
            model.stop_training = number == 1 and step == stopped_at

        _train(
            model,
            (20, 4, 10),
            save=lambda step: save(number, step),
            recorder=_Recorder(on_part=stop),
        )

    return meeting.run(work)


def test_workers_stop_together_at_a_step_that_is_saved(monkeypatch):
    saved = {0: [], 1: []}
    errors = _train_two_workers(
        monkeypatch,
        lambda number, step: saved[number].append(step),
        stopped_at=6,  # inside the block from 4 to 8
    )
    assert errors == [None, None] and saved == {0: [6], 1: [6]}


def test_no_worker_goes_on_if_the_chief_cannot_save(monkeypatch):
    def save(number, step):
        if number == 0:
            raise UserError("The disk is full.")

    errors = _train_two_workers(monkeypatch, save)
    assert [type(error) for error in errors] == [UserError] * 2
    assert "disk" in str(errors[0]) and "step 10" in str(errors[1])


def _traced_graph():
    """Traces a custom gradient; returns a weak reference to its graph."""

    @tf.custom_gradient
    def tripled(x):
        return x * 1.0, lambda dy: 3.0 * dy

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tripled(x)
        return tape.gradient(y, x)

    graph = gradient.get_concrete_function(tf.constant(1.0)).graph
    assert float(gradient(tf.constant(1.0))) == 3.0
    return weakref.ref(graph)


def test_a_graph_with_a_custom_gradient_is_freed_also_after_an_error():
    from_before = _traced_graph()
    before = training_utils.custom_gradients()
    with pytest.raises(KeyError), training_utils.freed_graphs():
        graph = _traced_graph()
        gc.collect()
        assert graph() is not None  # TensorFlow keeps it
        raise KeyError
    assert graph() is None and from_before() is not None
    assert before and training_utils.custom_gradients() == before
