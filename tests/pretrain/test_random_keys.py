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
