"""Token ids as inputs, and frozen layers, of every model that reads them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import electra_tf
from electra_tf.util.errors import UserError

CLASSES = (
    electra_tf.ElectraDiscriminator,
    electra_tf.ElectraGenerator,
    electra_tf.ElectraBackbone,
    electra_tf.ElectraRegressor,
)


@pytest.fixture(params=CLASSES, ids=lambda x: x.__name__)
def model(request):
    return request.param(tiny.BERT, tiny.VOCABULARY)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_weights_that_are_not_float32_are_refused(dtype):
    for cls in CLASSES:
        with pytest.raises(UserError, match=f"mixed_bf.*'{dtype}'. Set mixed"):
            cls(tiny.BERT, tiny.VOCABULARY, dtype=dtype)


def test_ids_are_completed_or_refused_by_name(model):
    ids = tf.constant([[2, 7, 8, 3, 0]])
    mask = tf.constant([[1, 1, 1, 1, 0]])
    complete = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}
    for found, expected in zip(
        keras.tree.flatten(model({"input_ids": ids})),
        keras.tree.flatten(model(complete)),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    for wrong, message in (
        ({"input_ids": ids, "attention_mask": mask}, "attention_mask. Rename"),
        ({"input_mask": mask}, "must be named input_ids"),
        ({"input_ids": ids[0]}, "Put a single row in a list"),
        ({"input_ids": tf.ones([1, 41])}, "at most 40 ids.*rows of 41"),
        ({"input_ids": tf.ragged.constant([[2, 3], [2]])}, "be padded.*ragged"),
    ):
        with pytest.raises(UserError, match=message):
            model(wrong)


def test_texts_are_no_inputs_of_a_head():
    model = electra_tf.ElectraRegressor(tiny.BERT, tiny.VOCABULARY)
    with pytest.raises(UserError, match="must be a dict of ids.*`predict`"):
        model(tf.constant(["w1"]))


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
