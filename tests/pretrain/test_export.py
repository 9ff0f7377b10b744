"""SavedModels predict as the model they came from, wherever they are loaded."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import export
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs

TEMPERATURE = 2.0
MASKED = ["w1 [MASK] w3[MASK][mask]", "[MASK]", "w5"]


def _config(**leaves):
    # Large weights, so that outputs differ from token to token.
    return tiny.config(num_hidden_layers=1, initializer_range=0.5, **leaves)


def _assert_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5)


def _probability(model, inputs):
    states = model.electra(*inputs).sequence_output
    logits = model.discriminator_predictions(states) / TEMPERATURE
    return tf.sigmoid(logits) * tf.cast(inputs.input_mask, tf.float32)


def _logits(model, inputs):
    states = model.generator(*inputs).sequence_output
    table = tf.convert_to_tensor(model.electra.embeddings.word_embeddings)
    return model.generator_predictions(states, table)


@pytest.fixture(scope="module")
def model():
    return Electra(_config(), tiny.VOCABULARY)


@pytest.fixture(scope="module")
def loaded(model, tmp_path_factory):
    """Returns name -> SavedModel."""
    root = tmp_path_factory.mktemp("saved_model")
    paths = export.export(model, root, temperature=TEMPERATURE)
    return {
        str(path.parent.relative_to(root)): tf.saved_model.load(path)
        for path in paths
    }


def test_a_generator_fills_in_masks_only(model, loaded):
    found = loaded["generator/text"].serving_default(tf.constant(MASKED))
    brackets = [1, 1, 1]  # [mask] is three unknown words, not a mask
    rows = [[2, 6, 4, 8, 4, *brackets, 3], [2, 4, 3], [2, 10, 3]]
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
    np.testing.assert_array_equal(found["input_ids"], ids)
    inputs = Inputs(ids, found["input_mask"], tf.zeros_like(ids))
    logits = _logits(model, inputs)
    of_ids = loaded["generator/ids"].serving_default(*inputs)["logits"]
    _assert_close(of_ids, logits)
    probability = tf.nn.softmax(logits).numpy()
    is_mask = ids.numpy() == 4
    best = np.argsort(-probability[is_mask])[:, :10]
    expected = np.array(tiny.VOCABULARY.tokens, "S")[best]
    np.testing.assert_array_equal(found["top_tokens"][is_mask], expected)
    _assert_close(
        found["top_probabilities"][is_mask],
        np.take_along_axis(probability[is_mask], best, 1),
    )
    assert set(found["top_tokens"][~is_mask].numpy().flat) == {b""}
    assert not found["top_probabilities"][~is_mask].numpy().any()


@pytest.mark.slow
def test_an_export_of_a_bfloat16_model_computes_in_float32(
    model, tmp_path, products_in_bfloat16
):
    rounded = Electra(_config(precision="bfloat16"), tiny.VOCABULARY)
    rounded.set_weights(model.get_weights())
    export.export(rounded, tmp_path, temperature=TEMPERATURE)
    inputs = tiny.batch(2)
    for name, key, compute in (
        ("discriminator", "probability_replaced", _probability),
        ("generator", "logits", _logits),
    ):
        network = tf.saved_model.load(tmp_path / name / "ids/1")
        found = network.serving_default(*inputs)[key]
        np.testing.assert_allclose(found, compute(model, inputs), atol=1e-4)
        assert np.abs(found - compute(rounded, inputs)).max() > 1e-3
