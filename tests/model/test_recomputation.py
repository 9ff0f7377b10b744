"""Recomputed blocks: the same numbers, computed twice."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.modeling import BertModel, recompute_blocks
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.util import seeds

CONFIG = dataclasses.replace(
    tiny.BERT,
    num_attention_heads=2,
    initializer_range=0.3,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.2,
)
ENCODERS = {
    "plain": {},
    "causal": {"direction": "left_to_right"},
    "packed": {"is_packed": True},
    "bfloat16": {"dtype": "mixed_bfloat16"},
    "towers": None,
}


def _encoder(kind, *, recompute):
    with seeds.seed_initializers(0):
        if ENCODERS[kind] is None:
            encoder = TwoTowerModel(CONFIG)
        else:
            encoder = BertModel(CONFIG, **ENCODERS[kind])
            encoder.build((None, None))
    if recompute:
        recompute_blocks(encoder)
    return encoder


def _states_and_gradients(encoder, step=1):
    inputs = tiny.packed_batch()
    keys = seeds.row_keys(0, tf.constant(step), tf.range(8))
    if not getattr(encoder, "is_packed", False):
        inputs = tiny.batch()
    with tf.GradientTape() as tape:
        states = encoder(*inputs, keys)
        states = getattr(states, "sequence_output", states)
        noise = np.random.default_rng(1).normal(size=states.shape)
        loss = tf.reduce_sum(states * noise.astype(np.float32))
    values = [v.value for v in encoder.trainable_variables]
    gradients = tape.gradient(loss, values)
    return states, [tf.convert_to_tensor(x) for x in gradients]


def _assert_close(found, expected, tolerance=1e-6):
    """Compares gradients; some, as of key biases, are 0 up to rounding."""
    largest = max(np.abs(x).max() for x in expected)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("kind", ENCODERS)
def test_recomputation_keeps_states_and_gradients(kind, products_in_bfloat16):
    states, expected = _states_and_gradients(_encoder(kind, recompute=False))
    recomputed, found = _states_and_gradients(_encoder(kind, recompute=True))
    np.testing.assert_allclose(recomputed, states, rtol=0, atol=1e-6)
    # A sum in bfloat16 may round to the next number.
    _assert_close(found, expected, 1e-2 if kind == "bfloat16" else 1e-6)


def test_a_replica_without_rows_adds_nothing_to_the_gradient():
    encoder, ids = _encoder("plain", recompute=True), tf.zeros([0, 5], tf.int32)
    with tf.GradientTape() as tape:
        keys = tf.zeros([0], tf.uint32)
        states = encoder(ids, ids, ids, keys).sequence_output
    values = [v.value for v in encoder.trainable_variables]
    for gradient in tape.gradient(states, values):
        assert not np.any(tf.convert_to_tensor(gradient))


def test_the_backward_pass_computes_each_block_again():
    def num_gelus(recompute):
        encoder = _encoder("plain", recompute=recompute)
        update = tf.function(
            lambda: _states_and_gradients(encoder)[1], autograph=False
        )
        graph = update.get_concrete_function().graph
        return sum(op.type == "Erfc" for op in graph.get_operations())

    assert num_gelus(False) == CONFIG.num_hidden_layers
    assert num_gelus(True) == 2 * CONFIG.num_hidden_layers
