"""Loss scaling on a model whose gradients pass through float16."""

import functools
import itertools
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny_regression import (
    RATE,
    ROWS,
    START,
    Regression,
    distribute,
)

from electra_tf.checkpoint import checkpoint_formats
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.model.losses import LossTerm
from electra_tf.pretrain import export
from electra_tf.training import loss_scaling, training_utils, updates
from electra_tf.training.finite_updates import FiniteUpdates
from electra_tf.util.errors import NonFiniteLossError

RNG = np.random.default_rng(0)
# Multiples of 1/8: exact in float16, and so is their product.
X = RNG.integers(-16, 17, (ROWS, 3)).astype("f") / 8
Y = RNG.integers(-16, 17, ROWS).astype("f") / 8


class _Regression(Regression):
    """The mean square of errors in float16, forward and backward."""

    loss_weights = {"square": 1.0}

    def __init__(self, precision="float16"):
        super().__init__(precision, num_parts=2, decay=0.01)

    def compute_losses(self, inputs, *, keys, training):
        x, y = inputs
        error = tf.cast(tf.linalg.matvec(x, self.theta) - y, tf.float16)
        error = tf.cast(error, tf.float32)
        count = tf.cast(tf.shape(x)[0], tf.float32)
        return {"square": LossTerm(tf.reduce_sum(error**2), count)}


class _Run:
    """Trains on one batch, on one replica or more.

    Attributes:
      model: the trained model.
      variables: the variables of its checkpoint.
    """

    def __init__(self, scale, num_replicas=1, x=X):
        strategy = tiny.replicas(num_replicas)
        with strategy.scope():
            self.model = _Regression()
        self.model.loss_scale.scale.assign(scale)
        found = updates.checkpoint_variables(self.model)
        prefix = f"{self.model.name}/"  # Keras numbers models
        self.variables = {k.removeprefix(prefix): v for k, v in found.items()}
        keys = tf.zeros([ROWS // num_replicas], tf.uint32)
        update = functools.partial(self.model.update_with_keys, keys=keys)
        self._block = training_utils.make_block(
            types.SimpleNamespace(update=update), strategy
        )
        self._batches = itertools.repeat(distribute((x, Y), strategy))

    def sums(self, num_updates=1):
        """Makes updates; returns metric -> float32 [n, 2]."""
        parts = [self._block(self._batches, 1) for _ in range(num_updates)]
        return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}

    def state(self):
        return {name: v.numpy() for name, v in self.variables.items()}


def _gradient():
    """Returns the gradient of the mean square, float64 [3]."""
    return 2 * ((X.astype("d") @ START) - Y) @ X / ROWS


def _assert_equal(first, second, *, ignored=()):
    for name in first.keys() - set(ignored):
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


STATE = ("global_step", "loss_scale/scale", "loss_scale/num_good_updates")


def test_an_update_is_adams_with_the_gradient_of_the_loss_itself():
    run, gradient = _Run(2.0**10), _gradient()
    sums = run.sums()
    norm = np.linalg.norm(gradient)
    clipped = gradient / norm
    step = 0.1 * clipped / (np.sqrt(0.001 * clipped**2) + 1e-6)
    expected = START - RATE * (step + 0.01 * START)
    np.testing.assert_allclose(run.model.theta.numpy(), expected, 1e-3)
    np.testing.assert_allclose(run.model.momentum(), 0.1 * clipped, 1e-3)
    np.testing.assert_allclose(sums["gradient_norm"], [[norm, 1]], 1e-3)
    mean = np.mean((X @ START - Y) ** 2)
    np.testing.assert_allclose(
        training_utils.ratio(sums["square"]), [mean], 1e-6
    )


def test_loss_scales_without_overflow_give_the_same_bits():
    runs = [_Run(scale) for scale in (1.0, 2.0**10)]
    for run in runs:
        run.sums(5)
    _assert_equal(*(run.state() for run in runs), ignored=["loss_scale/scale"])


@pytest.mark.promise(
    "A gradient that exceeds float16: the update is skipped and counted, "
    "and the loss scale is halved"
)
def test_an_overflow_skips_the_update_and_halves_the_scale():
    run = _Run(2.0**20)
    before = run.state()
    sums = run.sums()
    after = run.state()
    _assert_equal(before, after, ignored=STATE)
    assert [after[name] for name in STATE] == [1, 2.0**19, 0]
    assert sums["gradient_norm"].tolist() == [[0, 0]]
    assert sums["skipped_share"].tolist() == [[1, 1]]
    assert sums["loss_scale"].tolist() == [[2.0**20, 1]]
    FiniteUpdates(0, {"square": 1.0}).check(sums, 0)
    means = training_utils.means([sums], {"square": 1.0})
    assert "gradient_norm" not in means and means["skipped_share"] == 1


def test_the_scale_falls_until_gradients_are_finite():
    run, other = _Run(2.0**20), _Run(2.0**10)
    skipped = run.sums(8)["skipped_share"][:, 0]
    num_skipped = int(skipped.sum())
    assert 0 < num_skipped < 8 and skipped[num_skipped:].sum() == 0
    other.sums(8 - num_skipped)
    _assert_equal(run.state(), other.state(), ignored=STATE)


def test_the_scale_doubles_after_enough_good_updates():
    run = _Run(4.0)
    run.model.loss_scale.num_good_updates.assign(loss_scaling.GROWTH_PERIOD - 2)
    run.sums()
    assert run.state()["loss_scale/scale"] == 4
    run.sums()
    assert [run.state()[name] for name in STATE] == [2, 8, 0]


def test_two_replicas_do_what_one_does():
    one, two = _Run(2.0**20), _Run(2.0**20, 2)
    first, second = one.sums(8), two.sums(8)
    assert 0 < first["skipped_share"][:, 0].sum() < 8
    for name in first:
        np.testing.assert_allclose(second[name], first[name], 1e-5)
    for name, value in one.state().items():
        np.testing.assert_allclose(two.state()[name], value, 1e-5)
    scale = two.model.loss_scale.scale
    assert len({float(copy) for copy in scale.values}) == 1


def test_a_resume_is_bit_exact(tmp_path):
    whole, resumed = _Run(2.0**20), _Run(2.0**20)
    whole.sums(3)
    Checkpoints(tmp_path, whole.variables).save(3)
    whole.sums(5)
    assert Checkpoints(tmp_path, resumed.variables).restore_latest() == 3
    resumed.sums(5)
    _assert_equal(whole.state(), resumed.state())


def test_a_file_of_keras_keeps_the_scale(tmp_path):
    path = tmp_path / "model.weights.h5"
    model, again = _Regression(), _Regression()
    model.loss_scale.scale.assign(2.0**9)
    model.loss_scale.num_good_updates.assign(7)
    model.save_weights(path)
    again.load_weights(path)
    found = again.loss_scale.variables.values()
    assert [float(x) for x in found] == [2.0**9, 7]
    _Regression("float32").save_weights(path)  # as older files, without scale
    again.load_weights(path)
    found = again.loss_scale.variables.values()
    assert [float(x) for x in found] == [2.0**9, 7]


def test_a_loss_that_is_not_finite_ends_the_run():
    broken = np.where(np.arange(3) == 1, np.inf, X).astype("f")
    with pytest.raises(NonFiniteLossError, match="loss and its gradient"):
        FiniteUpdates(0, {"square": 1.0}).check(_Run(1.0, x=broken).sums(), 0)


def test_skipping_for_ever_ends_the_run_and_names_the_step():
    scales = np.stack([2.0 ** -np.arange(20, 28), np.ones(8)], 1)
    with pytest.raises(NonFiniteLossError, match="at step 106"):
        FiniteUpdates(0, {}).check({"loss_scale": scales}, 100)


def test_only_float16_has_a_scale():
    for precision in ("float32", "bfloat16"):
        model = _Regression(precision)
        assert model.loss_scale is None
        names = updates.checkpoint_variables(model)
        assert not any(name.startswith("loss_scale") for name in names)


@pytest.mark.slow
def test_pre_training_in_float16_learns_as_in_float32(tmp_path):
    losses = {}
    for precision in ("float32", "float16"):
        model = tiny.model(tiny.config(precision=precision))
        if model.loss_scale:
            model.loss_scale.scale.assign(2.0**8)  # so that none is skipped
        update = tf.function(model.update, autograph=False)
        metrics = [update(tiny.batch(seed=i)) for i in range(10)]
        losses[precision] = [float(tiny.total_loss(model, t)) for t in metrics]
        assert all("gradient_norm" in t for t in metrics)
    np.testing.assert_allclose(losses["float16"], losses["float32"], 2e-3)
    assert losses["float16"] != losses["float32"]
    variables = tiny.checkpoint_variables(model)
    Checkpoints(tmp_path, variables).save(10)
    read = checkpoint_formats.read(
        str(tmp_path), num_attention_heads=2, generator_num_attention_heads=1
    )
    expected = export.weights_of(model).arrays
    assert read.arrays.keys() == expected.keys()
    assert len(expected) == len(variables) - 2
