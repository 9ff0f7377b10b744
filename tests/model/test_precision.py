"""Matrix products, and nothing else, are in bfloat16."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.model import tensor_ops
from electra_tf.model.modeling import BertModel
from electra_tf.util import distribution, seeds

PRODUCTS = {"MatMul", "BatchMatMulV2"}
MOVES = {"Cast", "Reshape", "Transpose", "Identity", "Unpack", "Pack"}


def _encoder(policy="mixed_bfloat16"):
    with seeds.seed_initializers(0):
        encoder = BertModel(tiny.ENCODER, dtype=policy)
        encoder.build((None, None))
    return encoder


def _inputs():
    rng = np.random.default_rng(0)
    ids = rng.integers(5, tiny.VOCABULARY.size, (4, 12)).astype(np.int32)
    return ids, np.ones_like(ids), np.zeros_like(ids)


def _gradients(encoder):
    keys = seeds.row_keys(0, tf.constant(1), tf.range(4))
    with tf.GradientTape() as tape:
        states = encoder(*_inputs(), keys).sequence_output
        rng = np.random.default_rng(1)
        loss = tf.reduce_sum(states * rng.normal(size=states.shape))
    variables = [v.value for v in encoder.trainable_variables]
    gradients = tape.gradient(loss, variables)
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def _graph_of_gradients(encoder):
    function = tf.function(lambda: _gradients(encoder), autograph=False)
    return function.get_concrete_function()


def _rounded(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def _factors(*shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def test_factors_and_product_are_rounded_and_the_bias_is_not():
    if not distribution.has_bfloat16():
        pytest.skip("This CPU has no bfloat16.")
    x, kernel, bias = _factors((6, 40), (40, 3), (3,))
    y = tensor_ops.linear(x, kernel, bias, "bfloat16")
    assert y.dtype == tf.float32
    product = _rounded(_rounded(x) @ _rounded(kernel))
    # Another order of summation may round to the next number.
    one_unit = 2.0 ** (np.floor(np.log2(np.abs(product))) - 7)
    assert (np.abs(y - bias - product) <= 1.01 * one_unit).all()
    assert (y.numpy() == product + bias).mean() > 0.8


def test_bfloat16_is_float32_where_the_machine_has_none(monkeypatch):
    monkeypatch.setattr(distribution, "has_bfloat16", lambda: False)
    exact, mixed = _encoder("float32"), _encoder()
    assert mixed.compute_dtype == "bfloat16"
    np.testing.assert_array_equal(
        exact(*_inputs()).sequence_output, mixed(*_inputs()).sequence_output
    )


def test_only_products_are_of_bfloat16(products_in_bfloat16):
    encoder = _encoder()
    assert {v.dtype for v in encoder.weights} == {"float32"}
    graph = _graph_of_gradients(encoder)
    products = []
    for op in graph.graph.get_operations():
        is_rounded = tf.bfloat16 in {x.dtype for x in op.inputs}
        if op.type in PRODUCTS:
            products.append(is_rounded)
        elif is_rounded:
            assert op.type in MOVES, op.name
    # Forward: the embedding projection; query, key and value as one; two of
    # attention; three more. Backward: twice as many.
    assert products == [True] * 21
    assert all(gradient.dtype == tf.float32 for gradient in graph.outputs)
