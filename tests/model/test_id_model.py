"""Token ids as inputs, and frozen layers, of every model that reads them."""

import keras
import pytest
import tiny

import electra_tf

CLASSES = (
    electra_tf.ElectraDiscriminator,
    electra_tf.ElectraGenerator,
    electra_tf.ElectraBackbone,
    electra_tf.ElectraRegressor,
)


@pytest.fixture(params=CLASSES, ids=lambda x: x.__name__)
def model(request):
    return request.param(tiny.BERT, tiny.VOCABULARY)


def _freeze_all(model):
    model.trainable = False


def _freeze_all_but_a_part(model):
    model.encoder.trainable = False
    model.encoder.blocks[1].trainable = True
    model.encoder.blocks[1].attention.trainable = False


def _freeze_a_part(model):
    model.encoder.blocks[0].attention.query.trainable = False


@pytest.mark.parametrize(
    "freeze", [_freeze_all, _freeze_all_but_a_part, _freeze_a_part]
)
def test_frozen_layers_stay_frozen_in_clones_and_files(freeze, model, tmp_path):
    count = len(model.trainable_variables)
    freeze(model)
    names = [v.path for v in model.trainable_variables]
    assert len(names) < count
    flags = [x.trainable for x in model._flatten_layers()]
    model.save(tmp_path / "frozen.keras")
    for found in (
        keras.models.clone_model(model),
        keras.saving.load_model(tmp_path / "frozen.keras"),
    ):
        assert [v.path for v in found.trainable_variables] == names
        assert [x.trainable for x in found._flatten_layers()] == flags
