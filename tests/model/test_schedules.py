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
