import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model import heads, layers
from electra_tf.model.attention import SelfAttention
from electra_tf.model.modeling import BertModel, TransformerBlock
from electra_tf.model.two_tower import TwoTowerModel

X = np.random.default_rng(0).normal(size=(2, 3, 4))


def _filled(layer):
    layer.build(X.shape)
    rng = np.random.default_rng(1)
    values = [rng.normal(size=v.shape) for v in layer.weights]
    for variable, value in zip(layer.weights, values, strict=True):
        variable.assign(value)
    return layer(tf.constant(X, tf.float32)).numpy(), values


def test_linear_is_an_affine_map():
    found, (kernel, bias) = _filled(layers.Linear(5, 0.02, name="dense"))
    np.testing.assert_allclose(found, X @ kernel + bias, 1e-4, 1e-5)


def test_layer_norm_normalizes_scales_and_shifts():
    found, (gamma, beta) = _filled(layers.LayerNorm())
    centered = X - X.mean(-1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(found, normal * gamma + beta, 1e-4, 1e-5)


@pytest.mark.parametrize("scale", [0.02, None])
def test_kernels_start_as_the_originals(scale):
    kernel = layers.initializer(scale)((200, 100)).numpy()
    if scale is None:  # Glorot uniform
        limit = np.sqrt(6 / 300)
        assert 0.95 * limit < np.abs(kernel).max() <= limit
    else:  # normal, cut at two standard deviations
        assert np.abs(kernel).max() <= 2 * scale + 1e-6
        assert 0.85 * scale < kernel.std() < 0.9 * scale


@pytest.mark.parametrize(
    "layer",
    [
        layers.Linear(5, 0.02, name="dense", dtype="mixed_bfloat16"),
        layers.Linear(5, None, name="dense"),
        layers.LayerNorm("norm"),
        SelfAttention(tiny.BERT),
        TransformerBlock(tiny.BERT, name="layer_3"),
        BertModel(tiny.BERT, name="generator"),
        BertModel(tiny.BERT, is_packed=True),
        TwoTowerModel(tiny.BERT, is_packed=True),
        heads.GeneratorPredictions(4, 9, 0.02),
        heads.ClozePredictions(4, 9, 0.02),
        heads.DiscriminatorPredictions(6, 0.02),
        heads.SelectionPredictions(4, 0.02, has_neither=True),
        heads.Projection(6, 0.02, name="contrast_predictions"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_come_back_from_their_configuration(layer):
    config = keras.saving.serialize_keras_object(layer)
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is type(layer) and restored.name == layer.name
    assert restored.get_config() == layer.get_config()
    assert restored.dtype_policy == layer.dtype_policy
    is_packed = getattr(layer, "is_packed", None)
    assert getattr(restored, "is_packed", None) == is_packed
