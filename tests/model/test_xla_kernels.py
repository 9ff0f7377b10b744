import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import tensor_ops, xla_kernels
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.util import seeds

SHAPE = (8, 64, 64)  # MIN_SIZE elements


def _normal(*shape, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    return (scale * rng.normal(size=shape)).astype(np.float32)


def _kernels_of(function, *specs):
    graph = tf.function(function).get_concrete_function(*specs).graph
    calls = [op for op in graph.get_operations() if "Call" in op.type]
    bodies = {op.get_attr("f").name for op in calls}
    definitions = {
        f.signature.name: f for f in graph.as_graph_def().library.function
    }
    return sum(definitions[b].attr["_XlaMustCompile"].b for b in bodies)


def test_large_tensors_of_known_shape_are_compiled():
    def forward(x):
        return tensor_ops.gelu(x)

    assert _kernels_of(forward, tf.TensorSpec(SHAPE)) == 1
    assert _kernels_of(forward, tf.TensorSpec([None, 64, 64])) == 0
    assert _kernels_of(forward, tf.TensorSpec([8, 64, 63])) == 0
    assert _kernels_of(forward, tf.TensorSpec(SHAPE, tf.float64)) == 0


def test_gelu_and_its_gradient_are_those_of_float64():
    x, dy = _normal(*SHAPE), _normal(*SHAPE, seed=1)
    cdf = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    exact = tf.constant(x, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(exact)
        y = exact * 0.5 * (1 + tf.math.erf(exact * math.sqrt(0.5)))
    expected = tape.gradient(y, exact, tf.cast(dy, tf.float64))
    np.testing.assert_allclose(
        xla_kernels.gelu_gradient(exact, tf.cast(dy, tf.float64)),
        expected,
        rtol=1e-9,
        atol=1e-12,
    )
    single = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(single)
        y = tensor_ops.gelu(single)
    np.testing.assert_allclose(y, x * cdf, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        tape.gradient(y, single, tf.constant(dy)), expected, atol=1e-5
    )


@pytest.mark.parametrize("shape", [SHAPE, (8, 5)])
def test_dropout_draws_the_bits_of_its_keys_forward_and_backward(shape):
    x, dy = tf.constant(_normal(*shape)), tf.constant(_normal(*shape, seed=1))
    keys = seeds.row_keys(3, tf.constant(7), tf.range(8))
    bits = seeds.random_bits(keys, shape[1:]).numpy()
    kept = bits >= int(0.1 * 2**32)
    scale = np.float32(1 / 0.9)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tensor_ops.dropout(x, 0.1, keys)
    np.testing.assert_array_equal(y, np.where(kept, x * scale, 0))
    np.testing.assert_array_equal(
        tape.gradient(y, x, dy), np.where(kept, dy * scale, 0)
    )
    half = tensor_ops.dropout(x[4:], 0.1, keys[4:])
    np.testing.assert_array_equal(half, y[4:])


def test_the_optimizer_computes_its_formula_in_a_kernel():
    weights, gradient = _normal(*SHAPE), _normal(*SHAPE, seed=1)
    variable = keras.Variable(weights, name="kernel")
    optimizer = AdamWeightDecayOptimizer(0.1, 0.01)
    optimizer.build([variable])
    update = tf.function(lambda: optimizer.apply_reduced([gradient]))
    m = v = 0
    for _ in range(2):
        update()
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        step = m / (np.sqrt(v) + 1e-6) + 0.01 * weights
        weights = weights - 0.1 * step
    np.testing.assert_allclose(variable, weights, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(optimizer.means[0], m, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(optimizer.squares[0], v, rtol=1e-5, atol=1e-9)
