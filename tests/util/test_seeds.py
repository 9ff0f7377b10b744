import numpy as np
import tensorflow as tf

from electra_tf.util import seeds


def _numpy_mix(x):
    x = x.astype(np.uint64)
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    return (x ^ (x >> 16)).astype(np.uint32)


def _keys(rows, step=3, seed=7):
    return seeds.row_keys(seed, tf.constant(step), tf.constant(rows))


def test_a_key_mixes_seed_then_step_then_row():
    def word(value):
        return _numpy_mix(np.array(value * 0x9E3779B9 + 1) % 2**32)

    key = _numpy_mix(_numpy_mix(word(7)) ^ word(3))
    for row in (0, 5):
        expected = _numpy_mix(key ^ word(row))
        assert int(_keys([row])[0]) == int(expected)


def test_xla_and_eager_draw_the_same_bits():
    draw = lambda: seeds.random_bits(_keys([5, 6]), (64,))  # noqa: E731
    compiled = tf.function(draw, jit_compile=True)
    np.testing.assert_array_equal(draw(), compiled())
