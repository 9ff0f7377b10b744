"""The update on a model whose losses and gradients NumPy can compute."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.losses import LossTerm
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.training import updates

RATE, ROWS = 0.1, 8
START = np.array([0.5, -1.0, 2.0], "f")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3)).astype("f")
Y = RNG.normal(size=ROWS).astype("f")
WEIGHTS = np.arange(ROWS, dtype="f")  # the first row has no weight
BATCH = {"x": X, "y": Y, "weight": WEIGHTS}
# Losses and gradients of the whole batch, in float64.
ERROR, IS_ODD = X.astype("d") @ START - Y, WEIGHTS % 2
SQUARE = (2 * WEIGHTS * ERROR) @ X / WEIGHTS.sum()
ABSOLUTE = (IS_ODD * np.sign(ERROR)) @ X / IS_ODD.sum()


class _Regression(updates.UpdatedModel):
    """Two losses over rows of unequal weight: squares, and absolute values."""

    loss_weights = {"square": 2.0, "absolute": 0.5}

    def __init__(self, num_parts=1, *, name="theta", original_behaviour=()):
        super().__init__()
        runtime = types.SimpleNamespace(gradient_accumulation_steps=num_parts)
        self.config = types.SimpleNamespace(
            original_behaviour=original_behaviour, runtime=runtime
        )
        self.theta = self.add_weight(shape=(3,), name=name)
        self.theta.assign(START)
        self.unread = self.add_weight(shape=(2,), name="bias")
        self.built = True
        self.optimizer = AdamWeightDecayOptimizer(RATE, weight_decay_rate=0.0)
        self.optimizer.build(self.trainable_variables)

    def momentum(self):
        """Returns Adam's mean of the gradients of theta, float32 [3]."""
        return self.optimizer.means[0].numpy()

    def compute_losses(self, inputs, *, keys, training):
        assert training and keys.shape[0] == inputs["x"].shape[0]
        error = tf.linalg.matvec(inputs["x"], self.theta) - inputs["y"]
        weight = inputs["weight"]
        count = tf.reduce_sum(weight)
        is_odd = weight % 2
        return {
            "square": LossTerm(tf.reduce_sum(weight * error**2), count),
            "absolute": LossTerm(
                tf.reduce_sum(is_odd * tf.abs(error)), tf.reduce_sum(is_odd)
            ),
        }


class _Lookups(_Regression):
    """The mean of values times the words that are looked up for them."""

    loss_weights = {"product": 1.0}

    def compute_losses(self, inputs, *, keys, training):
        words = tf.gather(tf.convert_to_tensor(self.theta), inputs["word"])
        product = tf.reduce_sum(inputs["value"] * words)
        count = tf.cast(tf.size(inputs["word"]), tf.float32)
        return {"product": LossTerm(product, count)}


def _update(make=_Regression, batch=BATCH, num_replicas=1):
    """Makes one update; returns the model and metrics as [total, weight]."""
    strategy = tiny.replicas(num_replicas)
    with strategy.scope():
        model = make()
    keys = tf.zeros([ROWS // num_replicas], tf.uint32)

    def replica_update():
        context = tf.distribute.get_replica_context()
        number = context.replica_id_in_sync_group
        rows = {
            name: tf.gather(tf.split(x, num_replicas), number)
            for name, x in batch.items()
        }
        return model.update_with_keys(rows, keys=keys)

    update = tf.function(strategy.run, autograph=False)
    metrics = tf.nest.map_structure(
        lambda x: float(strategy.experimental_local_results(x)[0]),
        update(replica_update),
    )
    return model, metrics


@pytest.mark.parametrize(
    ("num_replicas", "num_parts"), [(1, 1), (1, 4), (2, 1), (2, 2)]
)
def test_an_update_is_adams_with_the_clipped_gradient_of_the_whole_batch(
    num_replicas, num_parts
):
    model, metrics = _update(
        lambda: _Regression(num_parts), num_replicas=num_replicas
    )
    gradient = 2.0 * SQUARE + 0.5 * ABSOLUTE
    norm = np.linalg.norm(gradient)
    assert norm > updates.CLIP_NORM, "else nothing is clipped"
    clipped = gradient * updates.CLIP_NORM / norm
    step = 0.1 * clipped / (np.sqrt(0.001 * clipped**2) + 1e-6)
    np.testing.assert_allclose(model.theta.numpy(), START - RATE * step, 1e-5)
    np.testing.assert_allclose(model.momentum(), 0.1 * clipped, 1e-5)
    assert model.optimizer.iterations.numpy() == 1
    expected = {
        "gradient_norm": (norm, 1),
        "square": ((WEIGHTS * ERROR**2).sum(), WEIGHTS.sum()),
        "absolute": ((IS_ODD * np.abs(ERROR)).sum(), IS_ODD.sum()),
    }
    for name, total_and_weight in expected.items():
        np.testing.assert_allclose(metrics[name], total_and_weight, 1e-5)


def test_the_originals_clip_norm_is_over_every_lookup_of_the_batch(
    monkeypatch,
):
    monkeypatch.setattr(updates, "CLIP_NORM", 0.5)
    words, values = np.arange(ROWS) % 2, 1 + np.abs(Y)
    options = {"name": "word_embeddings", "original_behaviour": ("clip_norm",)}
    model, metrics = _update(
        lambda: _Lookups(2, **options),
        {"word": words, "value": values},
        num_replicas=2,
    )
    norm = np.linalg.norm(values / ROWS)
    summed = np.bincount(words, values / ROWS, minlength=3)
    assert 0.5 < norm < np.linalg.norm(summed)
    np.testing.assert_allclose(metrics["gradient_norm"], [norm, 1], 1e-5)
    np.testing.assert_allclose(
        model.momentum(), 0.1 * summed * 0.5 / norm, 1e-5
    )


def test_one_micro_batch_at_a_time_is_in_memory():
    model = _Regression(num_parts=4)
    keys = tf.zeros([ROWS], tf.uint32)
    rows = tf.nest.map_structure(tf.constant, BATCH)
    update = tf.function(model.update_with_keys, autograph=False)
    graph = update.get_concrete_function(rows, keys=keys).graph
    loops = [x for x in graph.get_operations() if "While" in x.type]
    assert [x.get_attr("parallel_iterations") for x in loops] == [1]
