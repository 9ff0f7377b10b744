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
