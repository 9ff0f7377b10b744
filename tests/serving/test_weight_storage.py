"""Weights in fewer bits are rounded to the nearest value."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.layers import POLICIES
from electra_tf.model.networks import ElectraGenerator
from electra_tf.serving import endpoints, saved_models, weight_storage
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

SHAPE = (64, 256)
TEXTS = ["w1 w2 [MASK] w4", "w9"]


def _variable(name, shape=SHAPE):
    rng = np.random.default_rng(0)
    values = rng.normal(size=shape).astype(np.float32)
    values *= 1 + np.arange(shape[-1])  # outputs of very different sizes
    values[3] = values[:, 3] = 0
    return keras.Variable(values, name=name)


def _rounded_to_int8(weights, axis):
    """Rounds to the nearest of the 255 multiples of max |vector| / 127."""
    rows = np.moveaxis(weights.astype(np.float64), axis, -1)
    steps = np.arange(-127, 128) / 127 * np.abs(rows).max(-1)[:, None]
    nearest = np.abs(rows[:, :, None] - steps[:, None, :]).argmin(-1)
    return np.moveaxis(np.take_along_axis(steps, nearest, 1), -1, axis)


def _rounded_to_bfloat16(weights):
    """Drops 16 bits, rounding to the nearest, ties to even."""
    bits = weights.view(np.uint32)
    bits = bits + 0x7FFF + (bits >> 16 & 1)
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _rounded(variable, precision):
    weights = variable.numpy()
    if variable.name not in ("kernel", "word_embeddings"):
        return weights
    if precision == "bfloat16":
        return _rounded_to_bfloat16(weights)
    return _rounded_to_int8(weights, int(variable.name != "kernel"))


@pytest.mark.parametrize("name", ["kernel", "word_embeddings"])
def test_int8_rounds_to_the_nearest_step_of_each_output(name):
    variable = _variable(name)
    values, scales = weight_storage.stored(variable, "int8")
    assert values.dtype == np.int8 and np.abs(values.astype(int)).max() == 127
    assert scales.dtype == np.float32
    assert scales.shape == ((1, 256) if name == "kernel" else (64, 1))
    expected = _rounded_to_int8(variable.numpy(), int(name != "kernel"))
    np.testing.assert_allclose(values * scales, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["kernel", "word_embeddings"])
def test_bfloat16_is_rounded_and_not_cut(name):
    variable = _variable(name)
    (values,) = weight_storage.stored(variable, "bfloat16")
    assert values.nbytes == variable.numpy().nbytes / 2
    expected = _rounded_to_bfloat16(variable.numpy())
    np.testing.assert_array_equal(values.astype(np.float32), expected)


@pytest.mark.parametrize(
    ("name", "shape", "precision"),
    [
        ("kernel", SHAPE, "float32"),
        ("kernel", (64, 255), "int8"),
        ("kernel", (64, 255), "bfloat16"),
        ("position_embeddings", SHAPE, "int8"),
        ("gamma", SHAPE, "bfloat16"),
    ],
)
def test_small_kernels_and_other_weights_stay_float32(name, shape, precision):
    variable = _variable(name, shape)
    (values,) = weight_storage.stored(variable, precision)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, variable.numpy())


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_a_network_answers_as_one_of_rounded_weights(
    precision, monkeypatch, products_in_bfloat16
):
    monkeypatch.setattr(weight_storage, "MIN_SIZE", 1)
    config = tiny.config(num_hidden_layers=1, initializer_range=0.5)
    config = config.model.generator(tiny.VOCABULARY.size)
    policy = POLICIES["float32" if precision == "int8" else precision]
    with seeds.seed_initializers(
        0
    ):  # of some weights, rounding changes nothing
        exact, rounded = (
            ElectraGenerator(config, tiny.VOCABULARY, dtype=policy)
            for _ in range(2)
        )
    for ours, theirs in zip(exact.weights, rounded.weights, strict=True):
        theirs.assign(_rounded(ours, precision))
    network = endpoints.describe(exact).network
    exported = {"fill": network.signatures.of_text["serving_default"]}
    stored = saved_models.with_constants(exported, network.layers, precision)
    texts = tf.constant(TEXTS)
    fill = tf.function(stored["fill"], autograph=False)
    found = fill(texts)["top_probabilities"]
    for model, is_equal in ((rounded, True), (exact, False)):
        probability = tf.nn.softmax(model(texts)["logits"][0, 3]).numpy()
        expected = np.sort(probability)[::-1][:10]
        assert is_equal == np.allclose(found[0, 3], expected, atol=1e-5)


def test_weights_in_int8_that_are_too_large_for_a_graph_are_refused(
    monkeypatch,
):
    monkeypatch.setattr(saved_models, "MAX_CONSTANT_BYTES", 128 * 128)
    layer = keras.layers.Dense(128)
    layer.build((None, 128))  # 16,384 bytes, 512 of scales, 512 of bias
    with pytest.raises(UserError, match=r"int8.*17,408 bytes.*--precision"):
        saved_models.with_constants({}, [layer], "int8")
