import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import schedules


def _rate(step, total, warmup, power=1.0):
    decay = (1 - min(step, total) / total) ** power
    return 0.5 * decay * (min(1, step / warmup) if warmup else 1)


@pytest.mark.parametrize("warmup", [0, 4])
@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_rate_is_warmup_times_decay(warmup, power):
    schedule = schedules.WarmupPolynomialDecay(0.5, 12, warmup, power)
    for step in range(15):
        expected = _rate(step, 12, warmup, power)
        np.testing.assert_allclose(
            schedule(tf.constant(step)), expected, rtol=1e-6
        )


def test_rates_equal_those_the_original_printed():
    # learning rate 5e-4, 12 steps, warm-up 4: run of the original.
    schedule = schedules.WarmupPolynomialDecay(5e-4, 12, 4)
    printed = [0, 1.1458e-4, 2.0833e-4, 2.8125e-4, 3.3333e-4, 2.9167e-4]
    rates = [float(schedule(step)) for step in range(6)]
    np.testing.assert_allclose(rates, printed, rtol=1e-4)
    np.testing.assert_allclose(schedule(11), 4.1667e-5, rtol=1e-4)
    assert float(schedule(13)) == 0.0


def test_a_schedule_can_be_read_ahead():
    schedule = schedules.WarmupPolynomialDecay(0.5, 12, 4)
    ahead = schedules.WarmupPolynomialDecay(0.5, 12, 4, ahead=1)
    for step in range(14):
        assert float(ahead(step)) == float(schedule(step + 1))


def test_a_second_schedule_starts_at_its_own_step_0():
    first = schedules.WarmupPolynomialDecay(0.5, 7, 0)
    second = schedules.WarmupPolynomialDecay(0.25, 5, 0)
    both = schedules.TwoSchedules(first, second, 7)
    found = [float(both(tf.constant(step))) for step in range(13)]
    expected = [0.5 * (1 - s / 7) for s in range(7)]
    expected += [0.25 * (1 - s / 5) for s in range(5)] + [0.0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("is_open_first", "expected"), [(True, [0.5, 0.0]), (False, [0.0, 0.5])]
)
def test_a_gate_switches_after_as_many_updates(is_open_first, expected):
    gate = schedules.Gate(3, is_open_first, rate=0.5)
    found = [float(gate(tf.constant(step))) for step in range(6)]
    assert found == np.repeat(expected, 3).tolist()


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
    means = [0.0]
    for weight in _weights(first, last, 2000):
        means.append(beta_2 * means[-1] + (1 - beta_2) * weight**2)
    found = schedules.RisenSteps(first, last, beta_2)(tf.range(2000))
    np.testing.assert_allclose(found, np.sqrt(means[1:]), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("beta_2", [0.98, 0.999])
@pytest.mark.parametrize(
    ("first", "last"), [(10, 10), (10, 100), (10, 1500), (0, 4000)]
)
@pytest.mark.parametrize(  # of gradients with noise of 1
    "mean", [pytest.param(0.0, marks=pytest.mark.slow), 3.0]
)
def test_no_step_is_larger_than_usual(mean, first, last, beta_2):
    rng = np.random.default_rng(0)
    weights = _weights(first, last, 12_000)
    gradients = rng.normal(mean, 1, (12_000, 40)) * weights[:, None]
    schedule = schedules.RisenSteps(first, last, beta_2)
    factors = schedule(tf.range(12_000)).numpy().astype(float)
    size = np.sqrt(np.mean(_adam(gradients, beta_2, factors) ** 2, 1))
    plain = np.sqrt(np.mean(_adam(gradients, beta_2, factors > -1) ** 2, 1))
    usual = size[-3000:].max()
    assert size.max() < 1.05 * usual < 0.8 * plain.max()
    # The size of a step follows the weight, ten updates late (Adam's mean).
    for step in range(first + 50, last, 400):
        share = weights[step - 10 : step + 1]
        assert share[0] / 2 < size[step] / usual < 1.1 * share[-1]


@pytest.mark.parametrize(
    "schedule",
    [
        schedules.WarmupPolynomialDecay(0.5, 12, 4, 0.5, ahead=1),
        schedules.Gate(3, False, rate=0.5),
        schedules.RisenSteps(2, 9, 0.9),
        schedules.TwoSchedules(
            schedules.WarmupPolynomialDecay(0.5, 7, 2),
            schedules.WarmupPolynomialDecay(0.25, 5, 0),
            7,
        ),
    ],
)
def test_a_saved_schedule_has_the_same_rates(schedule):
    config = json.dumps(keras.saving.serialize_keras_object(schedule))
    restored = keras.saving.deserialize_keras_object(json.loads(config))
    for step in range(13):
        assert float(restored(step)) == float(schedule(step))
