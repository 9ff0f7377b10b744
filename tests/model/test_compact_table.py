import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import compact_table
from electra_tf.model.compact_table import CompactTable

IDS = np.array([[2, 0], [1, 2]], np.int32)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_rows_that_are_looked_up_are_those_of_the_whole_table(dtype):
    values = np.array([[1, -127], [64, 2], [0, -3]])
    scales = np.array([[0.5], [2.0], [0.25]], np.float32)
    is_scaled = dtype == "int8"
    expected = values * scales if is_scaled else values
    variable = keras.Variable(np.zeros((3, 2)), autocast=False)
    with keras.StatelessScope() as scope:
        stored = tf.cast(values, dtype)
        stored = CompactTable(stored, *[tf.constant(scales)] * is_scaled)
        scope.add_update((variable, stored))
        found = compact_table.lookup(variable, IDS)
        table = tf.convert_to_tensor(variable)
    assert found.dtype == table.dtype == tf.float32
    np.testing.assert_array_equal(found, expected[IDS])
    np.testing.assert_array_equal(table, expected)


def test_tables_of_float32_are_looked_up_as_they_are():
    table = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    for kind in (tf.constant, keras.Variable):
        found = compact_table.lookup(kind(table), IDS)
        np.testing.assert_array_equal(found, table[IDS])
