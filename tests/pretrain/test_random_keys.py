import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretrain import random_keys
from electra_tf.pretrain.random_keys import TrainingKeys

STEPS = np.array([0, 3, 4, 7, 10, 11, 20], np.float32)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (4, 10, [0, 0, 0, 0.5, 1, 1, 1]),
        (0, 20, STEPS / 20),
        (7, 7, [0, 0, 0, 1, 1, 1, 1]),
        (0, 0, [1] * 7),
    ],
)
def test_linear_ramp_rises_from_first_to_last(first, last, expected):
    found = random_keys.linear_ramp(tf.constant(STEPS), first, last)
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("num_steps", [20, 766_000, 1_750_000])
def test_step_of_recovers_the_step_exactly_from_the_progress(num_steps):
    steps = np.linspace(0, num_steps, 1000).astype(np.int64)
    progress = tf.constant(steps, tf.float32) / num_steps
    keys = TrainingKeys(tf.zeros([1000], tf.uint32), progress)
    found = random_keys.step_of(keys, num_steps)
    np.testing.assert_array_equal(found[:, 0], steps)
    evaluated = random_keys.step_of(tf.zeros([3], tf.uint32), num_steps)
    np.testing.assert_array_equal(evaluated, [[num_steps]])


def _adam(gradients, beta_2, factors):
    """Returns the steps of the original's Adam, float64 [n, size]."""
    m = v = np.zeros(gradients.shape[1])
    steps = []
    for gradient, factor in zip(gradients, factors, strict=True):
        m = 0.9 * m + 0.1 * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        steps.append(factor * m / (np.sqrt(v) + 1e-12))
    return np.array(steps)


def _weights(first, last, num_steps):
    """Returns the weight of a loss that rises, by update."""
    steps = np.arange(num_steps)
    weights = np.clip((steps - first) / max(last - first, 1), 0, 1)
    if first == last:
        weights = (steps >= first).astype(float)
    return weights


@pytest.mark.parametrize("beta_2", [0.0, 0.98, 0.999])
@pytest.mark.parametrize(
    ("first", "last"), [(5, 5), (5, 6), (0, 40), (300, 1100)]
)
def test_risen_steps_is_the_root_of_adams_mean_of_squared_weights(
    first, last, beta_2
):
    factor = random_keys.RisenSteps(first, last, beta_2)
    mean = 0.0
    for step, weight in enumerate(_weights(first, last, 2000)):
        mean = beta_2 * mean + (1 - beta_2) * weight**2
        if step < 20 or step % 97 == 0:
            found = float(factor(tf.constant(step)))
            assert found == pytest.approx(np.sqrt(mean), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("beta_2", [0.98, 0.999])
@pytest.mark.parametrize(
    ("first", "last"), [(10, 10), (10, 100), (10, 1500), (0, 4000)]
)
@pytest.mark.parametrize("mean", [0.0, 3.0])  # of gradients with noise of 1
def test_no_step_is_larger_than_usual(mean, first, last, beta_2):
    rng = np.random.default_rng(0)
    weights = _weights(first, last, 12_000)
    gradients = rng.normal(mean, 1, (12_000, 40)) * weights[:, None]
    schedule = random_keys.RisenSteps(first, last, beta_2)
    factors = schedule(tf.range(12_000)).numpy().astype(float)
    size = np.sqrt(np.mean(_adam(gradients, beta_2, factors) ** 2, 1))
    plain = np.sqrt(np.mean(_adam(gradients, beta_2, factors > -1) ** 2, 1))
    usual = size[-3000:].max()
    assert size.max() < 1.05 * usual < 0.8 * plain.max()
    # The size of a step follows the weight, ten updates late (Adam's mean).
    for step in range(first + 50, last, 400):
        share = weights[step - 10 : step + 1]
        assert share[0] / 2 < size[step] / usual < 1.1 * share[-1]
