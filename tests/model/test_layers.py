import keras
import pytest
import tiny

from electra_tf.model import heads, layers
from electra_tf.model.attention import SelfAttention
from electra_tf.model.modeling import BertModel, TransformerBlock
from electra_tf.model.two_tower import TwoTowerModel


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
