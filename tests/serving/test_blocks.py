import numpy as np
import pytest
import tensorflow as tf

from electra_tf.serving import blocks


@pytest.mark.parametrize("count", [0, 1, 32, 33, 100])
def test_blocks_together_are_all_rows(count):
    sizes = []

    def compute(rows):
        x = tf.range(count)[rows]
        tf.py_function(lambda x: sizes.append(int(tf.size(x))), [x], [])
        return x, tf.stack([x, -x], 1)

    specs = [tf.TensorSpec(shape, tf.int32) for shape in ([None], [None, 2])]
    found = blocks.in_blocks(tf.constant(count), compute, specs)
    numbers = np.arange(count)
    np.testing.assert_array_equal(found[0], numbers)
    np.testing.assert_array_equal(found[1], np.stack([numbers, -numbers], 1))
    assert sum(sizes) == count and max(sizes, default=0) <= blocks.BLOCK_SIZE
