"""Embeddings that two encoders share partially, against their formulas."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model import modeling, shared_embeddings

CONFIG = tiny.config(initializer_range=0.5).model.discriminator(60)
TABLES = ("word_embeddings", "token_type_embeddings", "position_embeddings")


@pytest.fixture(scope="module")
def base():
    embeddings = modeling.Embeddings(CONFIG)
    embeddings.build((None, None))
    return embeddings


@pytest.fixture
def disentangled(base):
    embeddings = shared_embeddings.DisentangledEmbeddings(CONFIG, base)
    embeddings.build((None, None))
    return embeddings


def _expected(layer, inputs, words, types, positions):
    length = inputs.input_ids.shape[1]
    x = words[inputs.input_ids] + types[inputs.segment_ids]
    x = (x + positions[:length]).astype(np.float64)
    x = x - x.mean(-1, keepdims=True)
    x /= np.sqrt(x.var(-1, keepdims=True))
    gamma, beta = (w.numpy() for w in layer.layer_norm.weights)
    return x * gamma + beta


def test_disentangled_tables_are_base_plus_difference(base, disentangled):
    rng = np.random.default_rng(0)
    sums = {}
    for table in TABLES:
        difference = disentangled.differences[table]
        difference.assign(rng.normal(size=difference.shape))
        sums[table] = getattr(base, table).numpy() + difference.numpy()
        np.testing.assert_array_equal(getattr(disentangled, table), sums[table])
    inputs = tiny.batch()
    offsets = rng.normal(size=(*inputs.input_ids.shape, 8)).astype(np.float32)
    found = disentangled(inputs.input_ids, inputs.segment_ids)
    expected = _expected(disentangled, inputs, *sums.values())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    moved = disentangled(
        inputs.input_ids, inputs.segment_ids, tf.constant(offsets)
    )
    assert np.abs(moved - found).max() > 0.1


def test_the_gradient_reaches_differences_and_never_the_base(
    base, disentangled
):
    inputs = tiny.batch()
    with tf.GradientTape() as tape:
        y = disentangled(inputs.input_ids, inputs.segment_ids)
        loss = tf.reduce_sum(y * tf.random.stateless_normal(y.shape, [1, 2]))
        loss += tf.reduce_sum(disentangled.word_embeddings[:3] ** 2)
    tables = [getattr(base, table).value for table in TABLES]
    own = [disentangled.differences[table].value for table in TABLES]
    gradients = tape.gradient(loss, [*tables, *own])
    assert gradients[:3] == [None] * 3
    assert all(np.abs(tf.convert_to_tensor(g)).max() > 0 for g in gradients[3:])
