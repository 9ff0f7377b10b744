import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import neighbour_attention
from electra_tf.model.modeling import BertModel
from electra_tf.util import seeds


@pytest.mark.parametrize("num_positions", [16, 40])
def test_rotation_shifts_positions(num_positions):
    table = neighbour_attention.position_table(num_positions, 16)
    waves = neighbour_attention.frequencies(num_positions, 16)
    for shift in (-2, -1, 1, 3):
        rotated = table @ neighbour_attention._rotation(waves, shift).T
        np.testing.assert_allclose(
            rotated[3:10], table[3 + shift : 10 + shift], atol=1e-9
        )


def test_positions_have_unit_size_and_are_nearly_orthogonal():
    table = neighbour_attention.position_table(64, 128)
    np.testing.assert_allclose(np.mean(table**2, 1), 1.0)
    products = table @ table.T / 128
    assert np.abs(products - np.eye(64)).max() < 0.7
    assert np.abs(products - np.eye(64)).mean() < 0.02


@pytest.mark.parametrize(
    ("width", "largest"), [(64, 0.34), (128, 0.25), (768, 0.01)]
)
def test_no_two_positions_are_alike(width, largest):
    table = neighbour_attention.position_table(512, width)
    products = table @ table.T / width - np.eye(512)
    assert np.abs(products).max() < largest
    near = [np.diagonal(products, shift)[0] for shift in range(1, 7)]
    assert np.abs(near).max() < 0.05  # heads attend to near positions


def test_heads_alternate_between_left_and_right():
    offsets = [neighbour_attention.offset(head) for head in range(6)]
    assert offsets == [-1, 1, -2, 2, -3, 3]
    for direction, sign in (("left_to_right", -1), ("right_to_left", 1)):
        offsets = [
            neighbour_attention.offset(head, direction) for head in range(12)
        ]
        assert offsets == [sign * (head + 1) for head in range(12)]


def test_kernels_of_24_heads_in_one_direction_are_finite():
    key = np.random.default_rng(0).normal(size=(192, 192))
    kernels = neighbour_attention.query_and_key(
        key, 24, None, num_positions=512, direction="right_to_left"
    )
    assert all(np.isfinite(kernel).all() for kernel in kernels)


def _shares(model, length):
    """Yields each layer's mean attention by offset, [A, 2 * length - 1].

    Column `length` - 1 + k is for the token k places to the right.
    """
    rng = np.random.default_rng(0)
    ids = rng.integers(0, model.config.vocab_size, (4, length), np.int32)
    output = model(ids, np.ones_like(ids), np.zeros_like(ids))
    states = [output.embedding_output, *output.all_layers]
    bias = model.bias(tf.constant(np.ones_like(ids))).numpy()
    for x, block in zip(states, model.blocks, strict=False):
        query, key, _ = (a.numpy() for a in block.attention._project(x))
        scores = np.einsum("bhid,bhjd->hbij", query, key)
        scores = scores / key.shape[-1] ** 0.5 + bias[:, 0]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.mean(weights / weights.sum(-1, keepdims=True), 1)
        shifts = range(1 - length, length)
        yield np.array(
            [[np.diagonal(head, k).mean() for k in shifts] for head in weights]
        )


def _encoder(direction="both", **leaves):
    sizes = {
        "vocab_size": 200,
        "hidden_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "embedding_size": 128,
        "max_position_embeddings": 64,
        "attention_initializer": "neighbours",
    }
    with seeds.seed_initializers(0):
        model = BertModel(BertConfig(**sizes | leaves), direction=direction)
        model.build((None, None))
    return model


@pytest.mark.parametrize(
    ("leaves", "direction", "length"),
    [
        ({}, "both", 64),
        ({"embedding_size": 64}, "both", 64),
        ({"hidden_size": 64}, "both", 64),
        ({"embedding_size": 64}, "left_to_right", 64),
        ({"embedding_size": 64}, "right_to_left", 64),
        ({"max_position_embeddings": 512}, "both", 512),
        pytest.param(
            *({"max_position_embeddings": 512, "hidden_size": 256}, "both"),
            512,
            marks=pytest.mark.slow,
        ),
        ({"max_position_embeddings": 512}, "both", 128),
    ],
)
def test_every_head_attends_mostly_to_its_neighbour(leaves, direction, length):
    model = _encoder(direction, **leaves)
    (shares,) = _shares(model, length)
    half = length // 2  # means at larger offsets are of few tokens
    for head, found in enumerate(shares[:, half - 1 : -half + 1]):
        column = half + neighbour_attention.offset(head, direction)
        assert np.argmax(found) == column
        assert found[column] > 2 * np.sort(found)[-2]


def _at_neighbours(shares):
    middle = shares.shape[1] // 2
    return [
        shares[head, middle + neighbour_attention.offset(head)]
        for head in range(len(shares))
    ]


DEMO = {
    "vocab_size": 4096,
    "num_hidden_layers": 2,
    "intermediate_size": 512,
    "initializer_range": 0.09,
}
SMALL = {
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 3,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize(
    ("leaves", "length", "documented"),
    [
        (DEMO, 64, [(0.30, 0.35), (0.05, 0.07)]),
        (
            {
                **DEMO,
                "hidden_size": 32,
                "num_attention_heads": 2,
                "intermediate_size": 128,
            },
            64,
            [(0.07, 0.10), (0.04, 0.05)],
        ),
        pytest.param(
            *(SMALL, 128, [(0.23, 0.26), (0.33, 0.40), (0.32, 0.38)]),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(SMALL, 512, [(0.10, 0.11), (0.18, 0.23), (0.18, 0.20)]),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["demo", "generator of the demo", "small at 128", "small at 512"],
)
def test_neighbours_have_the_documented_shares(leaves, length, documented):
    layers = [*_shares(_encoder(**leaves), length)]
    assert len(layers) == len(documented)
    for shares, (least, most) in zip(layers, documented, strict=True):
        found = _at_neighbours(shares)
        assert 0.8 * least < min(found) <= max(found) < 1.2 * most
