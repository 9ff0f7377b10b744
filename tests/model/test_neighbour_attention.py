import numpy as np
import pytest

from electra_tf.model import neighbour_attention
from electra_tf.model.bert_config import BertConfig
from electra_tf.model.modeling import BertModel


def test_positions_are_turned_into_each_other_by_rotation():
    table = neighbour_attention.position_table(40, 16)
    for shift in (-2, -1, 1, 3):
        turned = table @ neighbour_attention._rotation(16, shift).T
        np.testing.assert_allclose(
            turned[5:35], table[5 + shift : 35 + shift], atol=1e-9
        )


def test_positions_have_unit_size_and_are_nearly_orthogonal():
    table = neighbour_attention.position_table(64, 128)
    np.testing.assert_allclose(np.mean(table**2, 1), 1.0)
    products = table @ table.T / 128
    assert np.abs(products - np.eye(64)).max() < 0.7
    assert np.abs(products - np.eye(64)).mean() < 0.02


def test_heads_take_turns_before_and_after():
    offsets = [neighbour_attention.offset(head) for head in range(6)]
    assert offsets == [-1, 1, -2, 2, -3, 3]
    for direction, sign in (("left_to_right", -1), ("right_to_left", 1)):
        offsets = [
            neighbour_attention.offset(head, direction) for head in range(12)
        ]
        assert offsets == [sign * (head + 1) for head in range(12)]


def test_one_direction_goes_as_far_as_there_are_heads():
    key = np.random.default_rng(0).normal(size=(192, 192))
    kernels = neighbour_attention.query_and_key(
        key, 24, None, direction="right_to_left"
    )
    assert all(np.isfinite(kernel).all() for kernel in kernels)


@pytest.mark.parametrize(
    ("embedding", "hidden", "direction"),
    [
        (128, 128, "both"),
        (64, 128, "both"),
        (128, 64, "both"),
        (64, 128, "left_to_right"),
        (64, 128, "right_to_left"),
    ],
)
def test_every_head_looks_at_its_neighbour(embedding, hidden, direction):
    config = BertConfig(
        vocab_size=200,
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        embedding_size=embedding,
        max_position_embeddings=64,
        attention_initializer="neighbours",
    )
    model = BertModel(config, direction=direction)
    model.build((None, None))
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 200, (16, 64)).astype(np.int32)
    x = model.embeddings(ids, np.zeros_like(ids))
    if model.embeddings_project is not None:
        x = model.embeddings_project(x)
    query, key, _ = (a.numpy() for a in model.blocks[0].attention._project(x))
    scores = np.einsum("bhid,bhjd->bhij", query, key) / key.shape[-1] ** 0.5
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    inner, offsets = np.arange(8, 56), np.arange(-4, 5)
    for head in range(4):
        means = [weights[:, head, inner, inner + k].mean() for k in offsets]
        expected = neighbour_attention.offset(head, direction)
        assert offsets[np.argmax(means)] == expected
        assert np.max(means) > 3 * np.sort(means)[-2]
