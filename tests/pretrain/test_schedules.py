import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretrain import schedules
from electra_tf.pretrain.draws import TrainingKeys

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
def test_it_rises_linearly_between_two_steps(first, last, expected):
    found = schedules.risen(tf.constant(STEPS), first, last)
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("num_steps", [20, 766_000, 1_750_000])
def test_the_step_is_told_exactly_from_the_share_that_is_done(num_steps):
    steps = np.linspace(0, num_steps, 1000).astype(np.int64)
    progress = tf.constant(steps, tf.float32) / num_steps
    keys = TrainingKeys(tf.zeros([1000], tf.uint32), progress)
    found = schedules.step_of(keys, num_steps)
    np.testing.assert_array_equal(found[:, 0], steps)
    evaluated = schedules.step_of(tf.zeros([3], tf.uint32), num_steps)
    np.testing.assert_array_equal(evaluated, [[num_steps]])
