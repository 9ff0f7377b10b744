"""Attention and its masks against their formulas."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model import neighbour_attention
from electra_tf.model.modeling import SelfAttention, attention_bias

B, L, H, A = 2, 4, 6, 2
CONFIG = dataclasses.replace(tiny.BERT, hidden_size=H, num_attention_heads=A)
MASK = np.array([[1, 1, 1, 0], [1, 1, 1, 1]])
DOCUMENTS = np.array([[1, 1, 2, 0], [1, 2, 2, 3]])


def _may_read(mask, direction, is_packed):
    """Returns bool [B, L, L] (query, key), pair by pair."""
    found = np.zeros((B, L, L), bool)
    for row, reader, read in np.ndindex(B, L, L):
        is_real = mask[row, read] > 0
        is_ahead = {
            "both": False,
            "left_to_right": read > reader,
            "right_to_left": read < reader,
        }[direction]
        is_other = is_packed and mask[row, read] != mask[row, reader]
        found[row, reader, read] = is_real and not is_ahead and not is_other
    return found


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    "direction", ["both", "left_to_right", "right_to_left"]
)
def test_bias_follows_padding_direction_and_documents(direction, is_packed):
    mask = DOCUMENTS if is_packed else MASK
    bias = attention_bias(tf.constant(mask), direction, is_packed=is_packed)
    bias = np.broadcast_to(bias.numpy(), (B, 1, L, L))[:, 0]
    expected = np.where(_may_read(mask, direction, is_packed), 0.0, -10000.0)
    is_real = mask > 0  # the states of padding are never used
    np.testing.assert_array_equal(bias[is_real], expected[is_real])


@pytest.fixture(scope="module")
def attention():
    layer = SelfAttention(CONFIG)
    layer.build((None, None, H))
    rng = np.random.default_rng(0)
    for variable in layer.weights:
        variable.assign(rng.normal(size=variable.shape))
    return layer


def _numpy_attention(layer, x, bias):
    """Returns probabilities [B, A, L, L] and contexts [B, L, H], float64."""

    def projected(part):
        kernel, offset = (v.numpy().astype("d") for v in part.weights)
        y = (x @ kernel + offset).reshape(B, L, A, H // A)
        return y.transpose(0, 2, 1, 3)  # [B, A, L, d]

    query, key, value = map(projected, (layer.query, layer.key, layer.value))
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(H // A) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights, (weights @ value).transpose(0, 2, 1, 3).reshape(B, L, H)


def test_attention_is_the_softmax_of_scaled_products(attention):
    x = np.random.default_rng(1).normal(size=(B, L, H))
    bias = attention_bias(tf.constant(MASK))
    weights, contexts = _numpy_attention(attention, x, bias.numpy())
    x = tf.constant(x, tf.float32)
    found = attention.probabilities(x, bias)
    np.testing.assert_allclose(found, weights, 1e-4, 1e-6)
    np.testing.assert_allclose(attention(x, bias), contexts, 1e-4, 1e-5)
    assert (found.numpy()[0, ..., 3] == 0).all(), "padding is never read"


@pytest.mark.parametrize("num_positions", [16, 40])
def test_rotation_shifts_positions(num_positions):
    waves = neighbour_attention.frequencies(num_positions, 16)
    table = neighbour_attention.position_table(num_positions, waves)
    for shift in (-2, -1, 1, 3):
        rotated = table @ neighbour_attention.rotation(waves, shift).T
        np.testing.assert_allclose(
            rotated[3:10], table[3 + shift : 10 + shift], atol=1e-9
        )


def test_positions_have_unit_size_and_are_nearly_orthogonal():
    waves = neighbour_attention.frequencies(64, 128)
    table = neighbour_attention.position_table(64, waves)
    np.testing.assert_allclose(np.mean(table**2, 1), 1.0)
    products = table @ table.T / 128
    assert np.abs(products - np.eye(64)).max() < 0.7
    assert np.abs(products - np.eye(64)).mean() < 0.02


def test_heads_alternate_between_left_and_right():
    offsets = [neighbour_attention.offset(head) for head in range(6)]
    assert offsets == [-1, 1, -2, 2, -3, 3]
    for direction, sign in (("left_to_right", -1), ("right_to_left", 1)):
        offsets = [
            neighbour_attention.offset(head, direction) for head in range(12)
        ]
        assert offsets == [sign * (head + 1) for head in range(12)]
