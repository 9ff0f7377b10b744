"""A run that skips updates that are not finite equals one without them."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.losses import LossTerm
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.model.schedules import WarmupPolynomialDecay
from electra_tf.training import training_utils, updates
from electra_tf.training.finite_updates import FiniteUpdates
from electra_tf.util.errors import NonFiniteLossError

NUM_UPDATES, ROWS, RATE, DECAY = 5, 4, 0.1, 0.01
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM_UPDATES, ROWS, 3)).astype("f")
Y = RNG.normal(size=(NUM_UPDATES, ROWS)).astype("f")
START = np.array([0.5, -1.0, 2.0], "f")
BAD = 2  # the update that is not finite
TOO_LONG = 1e15  # the loss is finite, the square of its gradient's norm is not


class _Regression(updates.UpdatedModel):
    """The mean square of errors."""

    loss_weights = {"square": 1.0}

    def __init__(self, num_parts=1, precision="float32", max_skipped=1):
        super().__init__(precision)
        self.config = types.SimpleNamespace(
            optimizer=types.SimpleNamespace(
                clip_norm=1.0, original_clip_norm=False
            ),
            runtime=types.SimpleNamespace(
                gradient_accumulation_steps=num_parts,
                skip_nonfinite_updates=max_skipped,
            ),
        )
        self.theta = self.add_weight(shape=(3,), name="theta")
        self.theta.assign(START)
        self.built = True
        rate = WarmupPolynomialDecay(RATE, NUM_UPDATES, 0)
        self.optimizer = AdamWeightDecayOptimizer(rate, DECAY)
        self.optimizer.build(self.trainable_variables)

    def compute_losses(self, inputs, *, keys, training):
        x, y = inputs
        error = tf.linalg.matvec(x, self.theta) - y
        count = tf.cast(tf.shape(x)[0], tf.float32)
        return {"square": LossTerm(tf.reduce_sum(error**2), count)}

    def update(self, inputs):
        keys = tf.zeros(tf.shape(inputs[1]), tf.uint32)
        return self.update_with_keys(inputs, keys=keys)


def _broken(value):
    """Returns the inputs with a value in one row, which one replica sees."""
    x = X.copy()
    x[BAD, -1, 1] = value
    return x


def _train(x, *, num_replicas=1, **options):
    """Trains; returns a checkpoint's variables and the logs of each stop."""
    strategy = tiny.replicas(num_replicas)
    with strategy.scope():
        model = _Regression(**options)
    rows = tf.data.Dataset.from_tensor_slices((x, Y)).unbatch()
    rows = rows.batch(ROWS, drop_remainder=True)
    logs = {}
    training_utils.train(
        model,
        lambda step: iter(strategy.experimental_distribute_dataset(rows)),
        training_utils.Schedule(NUM_UPDATES, NUM_UPDATES, NUM_UPDATES),
        strategy=strategy,
        save=lambda step: None,
        callbacks=[
            keras.callbacks.LambdaCallback(on_epoch_end=logs.__setitem__)
        ],
        max_skipped=options.get("max_skipped", 1),
    )
    found = updates.checkpoint_variables(model)
    prefix = f"{model.name}/"  # Keras numbers models
    return {k.removeprefix(prefix): v.numpy() for k, v in found.items()}, logs


def _train_without(bad):
    """Trains in float64 on all batches but one, whose step is counted."""
    w, m, v, losses = START.astype("d"), 0.0, 0.0, {}
    for step in set(range(NUM_UPDATES)) - {bad}:
        error = X[step].astype("d") @ w - Y[step]
        losses[step] = np.mean(error**2)
        g = 2 * error @ X[step] / ROWS
        g /= max(1.0, np.linalg.norm(g))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        rate = RATE * (1 - step / NUM_UPDATES)
        w = w - rate * (m / (np.sqrt(v) + 1e-6) + DECAY * w)
    return {"theta": w, "theta/adam_m": m, "theta/adam_v": v}, losses


@pytest.mark.promise(
    "A loss or gradient that is infinite or no number, with "
    "--skip_nonfinite_updates: the run ends as one without that batch would"
)
@pytest.mark.parametrize(
    ("value", "options"),
    [
        (np.nan, {}),
        (np.inf, {"num_parts": 2}),
        (TOO_LONG, {"num_replicas": 2}),
        (np.nan, {"num_replicas": 2, "num_parts": 2}),
        (np.nan, {"precision": "float16"}),
    ],
)
def test_a_skipped_update_leaves_a_run_without_its_batch(
    value, options, capsys
):
    found, logs = _train(_broken(value), **options)
    expected, losses = _train_without(BAD)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 2e-5, err_msg=name)
    assert found["global_step"] == NUM_UPDATES
    assert [logs[step]["skipped_updates"] for step in (1, NUM_UPDATES)] == [
        0,
        1,
    ]
    mean = np.mean(
        [losses[step] for step in range(1, NUM_UPDATES) if step != BAD]
    )
    np.testing.assert_allclose(logs[NUM_UPDATES]["loss"], mean, 1e-5)
    warning = capsys.readouterr().err
    assert "Skipped the update of step 3: loss " in warning


def test_a_training_whose_first_update_is_skipped_goes_on():
    x = X.copy()
    x[0] = np.nan
    found, logs = _train(x)
    np.testing.assert_allclose(
        found["theta"], _train_without(0)[0]["theta"], 2e-5
    )
    assert logs[1]["skipped_updates"] == 1 and "loss" not in logs[1]


@pytest.mark.promise(
    "A loss or gradient that is infinite or no number: the run ends with exit "
    "code 4 before anything is saved, naming step, value and the way out"
)
@pytest.mark.parametrize(
    ("value", "received"),
    [
        (np.nan, "step 3: loss nan, gradient_norm nan, square nan."),
        (TOO_LONG, r"step 3: loss \d.*e\+\d+, gradient_norm inf."),
    ],
)
def test_by_default_the_first_nonfinite_update_ends_the_run(value, received):
    with pytest.raises(
        NonFiniteLossError, match=f"{received}.*--skip_nonfinite_updates=3"
    ):
        _train(_broken(value), max_skipped=0)


def test_too_many_skipped_updates_in_a_row_end_the_run_across_blocks():
    def sums(*values):
        pairs = np.stack([values, np.ones(len(values))], 1)
        return {"square": pairs.astype("f")}

    finite = FiniteUpdates(2, {"square": 1.0})
    kept = finite.check(sums(1, np.nan, np.nan, 4, np.nan), 10)
    assert kept["square"][:, 0].tolist() == [1, 4]
    assert kept["skipped_updates"].tolist() == [
        [0, 1],
        [1, 1],
        [1, 1],
        [0, 1],
        [1, 1],
    ]
    with pytest.raises(NonFiniteLossError, match="step 17.*2 updates before"):
        finite.check(sums(np.inf, np.nan, 8), 15)


def test_skipping_is_in_the_graph_only_if_it_is_allowed():
    """Without it only `clip_scale` checks whether the norm is finite."""
    counts = {}
    for max_skipped in (0, 1):
        model = _Regression(max_skipped=max_skipped)
        update = tf.function(model.update, autograph=False)
        traced = update.get_concrete_function((X[0], Y[0]))
        kinds = [operation.type for operation in traced.graph.get_operations()]
        counts[max_skipped] = [kinds.count(x) for x in ("IsFinite", "SelectV2")]
    assert counts[0] == [1, 1]
    assert counts[1] == [2, 1 + 3]  # the variable and its slots
