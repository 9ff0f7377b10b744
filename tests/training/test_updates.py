"""The update on a model whose losses and gradients NumPy can compute."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.losses import LossTerm
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.model.schedules import WarmupPolynomialDecay
from electra_tf.training import updates

CLIP = updates.CLIP_NORM
RATE, ROWS = 0.1, 8
START = np.array([0.5, -1.0, 2.0], "f")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3)).astype("f")
Y = RNG.normal(size=ROWS).astype("f")
WEIGHTS = np.arange(ROWS, dtype="f")  # the first row has no weight
BATCH = {"x": X, "y": Y, "weight": WEIGHTS}


class _Base(updates.UpdatedModel):
    """Three weights, and two that no loss reads; subclasses define losses."""

    def __init__(
        self,
        num_parts=1,
        *,
        decay=0.0,
        name="theta",
        original_behaviour=(),
    ):
        super().__init__()
        self.config = types.SimpleNamespace(
            original_behaviour=original_behaviour,
            runtime=types.SimpleNamespace(
                gradient_accumulation_steps=num_parts
            ),
        )
        self.theta = self.add_weight(shape=(3,), name=name)
        self.theta.assign(START)
        self.unread = self.add_weight(
            shape=(2,), initializer="ones", name="bias"
        )
        self.built = True
        rate = WarmupPolynomialDecay(RATE, 10, 0, 0.0)  # constant
        self.optimizer = AdamWeightDecayOptimizer(rate, weight_decay_rate=decay)
        self.optimizer.build(self.trainable_variables)

    def momentum(self):
        """Returns Adam's mean of the gradients of theta, float32 [3]."""
        return self.optimizer.means[0].numpy()


class _Regression(_Base):
    """Two losses over rows of unequal weight: squares, and absolute values."""

    loss_weights = {"square": 2.0, "absolute": 0.5}

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


def distribute(batch, strategy):
    """Splits a batch of `ROWS` rows among the replicas of a strategy."""
    count = strategy.num_replicas_in_sync
    if count == 1:
        return tf.nest.map_structure(tf.constant, batch)

    def replica_rows(context):
        number = context.replica_id_in_sync_group
        return tf.nest.map_structure(
            lambda x: tf.constant(np.split(x, count)[number]), batch
        )

    return strategy.experimental_distribute_values_from_function(replica_rows)


def _gradient():
    """Returns the gradient of both losses over the whole batch, float64 [3]."""
    error = (X.astype("d") @ START) - Y
    is_odd = WEIGHTS % 2
    square = (2 * WEIGHTS * error) @ X / WEIGHTS.sum()
    absolute = (is_odd * np.sign(error)) @ X / is_odd.sum()
    return 2.0 * square + 0.5 * absolute


@functools.cache
def _update(num_replicas=1, num_parts=1, **options):
    """Makes one update; returns the model and metrics as [total, weight]."""
    strategy = tiny.replicas(num_replicas)
    with strategy.scope():
        model = _Regression(num_parts, **options)
    return model, _apply(model, BATCH, strategy)


def _apply(model, batch, strategy):
    batch = distribute(batch, strategy)
    keys = tf.zeros([ROWS // strategy.num_replicas_in_sync], tf.uint32)

    @tf.function(autograph=False)
    def run():
        return strategy.run(
            lambda rows: model.update_with_keys(rows, keys=keys), args=(batch,)
        )

    return {
        name: [float(strategy.experimental_local_results(x)[0]) for x in metric]
        for name, metric in run().items()
    }


class _Lookups(_Base):
    """The mean of values times the words that are looked up for them."""

    loss_weights = {"product": 1.0}

    def compute_losses(self, inputs, *, keys, training):
        words = tf.gather(tf.convert_to_tensor(self.theta), inputs["word"])
        product = tf.reduce_sum(inputs["value"] * words)
        count = tf.cast(tf.size(inputs["word"]), tf.float32)
        return {"product": LossTerm(product, count)}


@pytest.mark.parametrize(
    ("num_replicas", "num_parts"), [(1, 1), (1, 4), (2, 1), (2, 2)]
)
def test_an_update_is_adams_with_the_clipped_gradient_of_the_whole_batch(
    num_replicas, num_parts
):
    model, metrics = _update(num_replicas, num_parts)
    gradient = _gradient()
    norm = np.linalg.norm(gradient)
    assert norm > CLIP, "else nothing is clipped"
    clipped = gradient * CLIP / norm
    step = 0.1 * clipped / (np.sqrt(0.001 * clipped**2) + 1e-6)
    np.testing.assert_allclose(model.theta.numpy(), START - RATE * step, 1e-5)
    np.testing.assert_allclose(model.momentum(), 0.1 * clipped, 1e-5)
    np.testing.assert_allclose(metrics["gradient_norm"][0], norm, 1e-5)
    assert model.optimizer.iterations.numpy() == 1


@pytest.mark.parametrize(("num_replicas", "num_parts"), [(1, 1), (2, 2)])
def test_metrics_are_sums_over_the_whole_batch(num_replicas, num_parts):
    _, metrics = _update(num_replicas, num_parts)
    error = (X.astype("d") @ START) - Y
    is_odd = WEIGHTS % 2
    square = [(WEIGHTS * error**2).sum(), WEIGHTS.sum()]
    absolute = [(is_odd * np.abs(error)).sum(), is_odd.sum()]
    np.testing.assert_allclose(metrics["square"], square, 1e-5)
    np.testing.assert_allclose(metrics["absolute"], absolute, 1e-5)


@pytest.mark.parametrize(("num_replicas", "num_parts"), [(1, 1), (2, 2)])
def test_the_originals_clip_norm_is_over_every_lookup_of_the_batch(
    monkeypatch, num_replicas, num_parts
):
    monkeypatch.setattr(updates, "CLIP_NORM", 0.5)
    strategy = tiny.replicas(num_replicas)
    with strategy.scope():
        model = _Lookups(
            num_parts,
            name="word_embeddings",
            original_behaviour=("clip_norm",),
        )
    words, values = np.arange(ROWS) % 2, 1 + np.abs(Y)
    metrics = _apply(model, {"word": words, "value": values}, strategy)
    norm = np.linalg.norm(values / ROWS)
    summed = np.bincount(words, values / ROWS, minlength=3)
    assert 0.5 < norm < np.linalg.norm(summed)
    np.testing.assert_allclose(metrics["gradient_norm"], [norm, 1], 1e-5)
    np.testing.assert_allclose(
        model.momentum(), 0.1 * summed * 0.5 / norm, 1e-5
    )


def test_the_gradient_has_the_factors_of_this_update(monkeypatch):
    monkeypatch.setattr(updates, "CLIP_NORM", 1e6)
    model = _Regression()
    model.loss_factors = lambda keys: {"square": 0.0, "absolute": 0.25}
    _apply(model, BATCH, tiny.replicas(1))
    is_odd = WEIGHTS % 2
    gradient = (is_odd * np.sign(X.astype("d") @ START - Y)) @ X / is_odd.sum()
    np.testing.assert_allclose(model.momentum(), 0.1 * 0.25 * gradient, 1e-5)


def test_one_micro_batch_at_a_time_is_in_memory():
    model = _Regression(num_parts=4)
    keys = tf.zeros([ROWS], tf.uint32)
    update = tf.function(
        lambda rows: model.update_with_keys(rows, keys=keys), autograph=False
    )
    graph = update.get_concrete_function(distribute(BATCH, tiny.replicas(1)))
    loops = [x for x in graph.graph.get_operations() if "While" in x.type]
    assert [x.get_attr("parallel_iterations") for x in loops] == [1]


def test_a_batch_without_weight_changes_nothing():
    model = _Regression()
    empty = BATCH | {"weight": np.zeros(ROWS, "f")}
    metrics = model.update_with_keys(
        tf.nest.map_structure(tf.constant, empty),
        keys=tf.zeros([ROWS], tf.uint32),
    )
    assert float(metrics["square"].weight) == 0
    assert float(metrics["gradient_norm"].total) == 0
    np.testing.assert_array_equal(model.theta.numpy(), START)


def test_a_checkpoint_holds_weights_slots_and_the_step():
    model = _Regression()
    names = {*updates.checkpoint_variables(model)}
    paths = {v.path for v in model.trainable_variables}
    slots = {f"{path}/adam_{x}" for path in paths for x in "mv"}
    assert names == {"global_step", *paths, *slots}
    model.unread.trainable = False  # as a frozen generator
    frozen = {f"{model.unread.path}/adam_{x}" for x in "mv"}
    model.optimizer = AdamWeightDecayOptimizer(0.1)
    model.optimizer.build(model.trainable_variables)
    assert {*updates.checkpoint_variables(model)} == names - frozen
