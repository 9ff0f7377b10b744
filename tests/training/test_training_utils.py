import contextlib
import gc
import json
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

from electra_tf.config.corpus import Phase
from electra_tf.training import callbacks, training_utils
from electra_tf.util.errors import (
    NonFiniteLossError,
    StoppedBySignal,
    UserError,
)


class _Model:
    """Has its step as loss, NaN at `bad_step`; lists steps of its training."""

    loss_weights = {"a": 2.0}

    def __init__(self, bad_step=-1):
        step = tf.Variable(0, dtype=tf.int64)
        self.optimizer = types.SimpleNamespace(iterations=step)
        self.bad_step = bad_step
        self.blocks, self.saved, self.opened = [], [], []

    def update(self, inputs):
        step = self.optimizer.iterations.assign_add(1)
        value = tf.cast(step, tf.float32)
        value = tf.where(step == self.bad_step, np.nan, value)
        return {"a": (value * 3.0, tf.constant(3.0))}


def _train(model, *schedule, **hooks):
    """Trains; lists starts of data, ends of blocks and checkpoints."""

    def listed(steps, name):
        def hook(step, logs=None):
            steps.append(step)
            hooks.get(name, lambda step: None)(step)

        return hook

    def batches(step):
        model.opened.append(step)
        return iter(tf.data.Dataset.from_tensors(0).repeat())

    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=listed(model.blocks, "on_block"),
        on_train_batch_end=listed([], "on_part"),
    )
    training_utils.train(
        model,
        batches,
        training_utils.Schedule(*schedule),
        callbacks=[callback],
        strategy=tf.distribute.get_strategy(),
        save=listed(model.saved, "on_save"),
    )


def test_blocks_end_at_saves_milestones_and_borders_where_data_begin():
    model = _Model()
    _train(model, 25, 10, 8, frozenset({3}), frozenset({5, 16}))
    assert model.blocks == [1, 3, 5, 8, 10, 16, 20, 24, 25]
    assert model.saved == [3, 8, 16, 24, 25]
    for start, expected in ((0, [0, 5, 16]), (5, [5, 16]), (17, [17])):
        model.optimizer.iterations.assign(start)
        model.opened.clear()
        _train(model, 20, 8, 100, frozenset(), frozenset({5, 16}))
        assert model.opened == expected


def test_a_callback_can_end_the_training_with_a_checkpoint():
    model = _Model()

    def stop_at_8(step):
        model.stop_training = step == 8

    def go_on(step):
        model.stop_training = False  # as an evaluation that finds no reason

    _train(model, 20, 4, 100, on_block=stop_at_8, on_save=go_on)
    assert model.blocks == [1, 4, 8] and model.saved == [8]
    _train(model, 20, 4, 100)
    assert model.blocks[3:] == [12, 16, 20], "it can be taken up again"


def test_a_loss_that_is_not_finite_stops_before_saving_and_names_the_step():
    model = _Model(bad_step=7)
    with pytest.raises(NonFiniteLossError, match="at step 7"):
        _train(model, 9, 3, 3)
    assert model.saved == [3, 6]


@pytest.mark.parametrize(
    ("number", "moment", "schedule"),
    [
        (signal.SIGTERM, "on_block", (20, 4, 100)),
        (signal.SIGINT, "on_block", (20, 4, 100)),
        (signal.SIGHUP, "on_block", (20, 4, 100)),
        (signal.SIGTERM, "on_part", (10**6, 10**6, 10**6)),
        (signal.SIGTERM, "on_save", (4, 4, 4)),  # at the last step
    ],
)
def test_a_signal_saves_and_stops(number, moment, schedule):
    model = _Model()

    def kill(step):
        if step > 1:
            os.kill(os.getpid(), number)

    with pytest.raises(StoppedBySignal) as stopped:
        _train(model, *schedule, **{moment: kill})
    assert model.saved == [stopped.value.step]
    assert model.blocks == [1, stopped.value.step]
    assert stopped.value.step == 4 or moment == "on_part"
    assert stopped.value.step < 10**6


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
    """Numbers batches of 4 rows 1, 2, ... times a power of 10."""
    strategy = tiny.replicas(num_replicas)
    order = [0, 1, 1, 2, 0, 0, 2, 1, 0, 2]
    lengths = (2, 3, 5)

    def iterator(number):
        values = np.repeat(np.arange(1, 5) * 10.0**number, 4).astype("f")
        rows = np.repeat(values[:, None], lengths[number], 1)
        dataset = tf.data.Dataset.from_tensor_slices(rows)
        dataset = dataset.batch(4 // num_replicas, drop_remainder=True)
        return iter(
            strategy.distribute_datasets_from_function(lambda _: dataset)
        )

    batches = training_utils.InterleavedBatches(
        tuple(iterator(i) for i in range(3)), iter(order)
    )
    with strategy.scope():
        model = _Adder()
    block = training_utils.make_block(model, strategy)
    found = [block(batches, num_steps)["a"][:, 0] for num_steps in (1, 5, 4)]
    expected = [
        4 * lengths[index] * (1 + order[:i].count(index)) * 10**index
        for i, index in enumerate(order)
    ]
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


def _train_two_workers(monkeypatch, stopped_at=None, **hooks_of_chief):
    """Trains two workers; the second one is to stop at a step."""
    meeting, models = Meeting(2), [_Model(), _Model()]
    no_signals = contextlib.nullcontext  # threads receive none
    monkeypatch.setattr(training_utils.console, "handled_by", no_signals)
    monkeypatch.setattr(training_utils.distribution, "Workers", meeting.workers)
    monkeypatch.setattr(training_utils, "_SECONDS_PER_PART", 0.0)

    def work(number):
        def stop(step):
            models[1].stop_training = step == stopped_at

        hooks = {"on_part": stop} if number else hooks_of_chief
        _train(models[number], 20, 4, 10, **hooks)

    return meeting.run(work), [model.saved for model in models]


def test_workers_stop_together_at_a_step_that_is_saved(monkeypatch):
    errors, saved = _train_two_workers(monkeypatch, stopped_at=6)
    assert errors == [None, None]
    assert saved == [[6], [6]]  # inside the block from 4 to 8


def test_no_worker_goes_on_if_the_chief_cannot_save(monkeypatch):
    def fail(step):
        raise UserError("The disk is full.")

    errors, _ = _train_two_workers(monkeypatch, on_save=fail)
    assert [type(error) for error in errors] == [UserError] * 2
    assert "disk" in str(errors[0]) and "step 10" in str(errors[1])


def test_a_graph_with_a_custom_gradient_is_freed_also_after_an_error():
    @tf.custom_gradient
    def tripled(x):
        return x * 1.0, lambda dy: 3.0 * dy

    with pytest.raises(KeyError), training_utils.freed_graphs():
        function = tf.function(lambda x: tf.gradients(tripled(x), x)[0])
        graph = function.get_concrete_function(tf.constant(1.0)).graph
        graph, function = weakref.ref(graph), None
        gc.collect()
        assert graph() is not None  # TensorFlow keeps it
        raise KeyError
    assert graph() is None


def test_the_log_has_each_step_once_after_a_resume(tmp_path):
    path = tmp_path / "metrics.jsonl"
    phases = (Phase(0, 90, 32, 128, 128), Phase(90, 100, 16, 512, 512))
    for first_step, steps in ((0, (80, 90, 91)), (90, (91,))):
        log = callbacks.JsonLog(path, first_step=first_step, phases=phases)
        log.on_train_begin()
        for step in steps:
            log.on_epoch_end(step, {"loss": 12.3, "steps_per_second": 10.0})
        with path.open("a") as file:
            file.write('{"step": 9' * (first_step == 0))  # cut off by a kill
    of_phases = {
        "max_seq_length": (128, 128, 512),
        "sequences_per_second": (320.0, 320.0, 160.0),
        "tokens_per_second": (40_960.0, 40_960.0, 81_920.0),
    }
    expected = {"step": (80, 90, 91), "loss": (12.3,) * 3} | of_phases
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for name, values in expected.items():
        assert tuple(record[name] for record in records) == values
