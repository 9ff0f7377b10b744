"""SavedModels predict as the model they came from, wherever they are loaded."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import export
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.mlm import MaskedLanguageModel
from electra_tf.pretrain.pretrain_data import Inputs

TEXTS = ["w1 w2 w3 w4 w5", "W1 w12"]
TEMPERATURE = 2.0
MASKED = ["w1 [MASK] w3[MASK][mask]", "[MASK]", "w5"]


def _inputs(texts):
    """Encodes texts of known words without the tokenizer."""
    ids = [
        [2, *map(tiny.VOCABULARY.tokens.index, text.lower().split()), 3]
        for text in texts
    ]
    ids = tf.ragged.constant(ids, dtype=tf.int32)
    input_ids = ids.to_tensor()
    input_mask = tf.ones_like(ids).to_tensor()
    return Inputs(input_ids, input_mask, tf.zeros_like(input_ids))


def _config(**leaves):
    # Large weights, so that outputs differ from token to token.
    return tiny.config(num_hidden_layers=1, initializer_range=0.5, **leaves)


def _assert_close(found, expected):
    if getattr(expected, "dtype", None) == tf.string:
        np.testing.assert_array_equal(found, expected)
    else:
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
def root(model, tmp_path_factory):
    root = tmp_path_factory.mktemp("saved_model")
    paths = export.export(model, root, temperature=TEMPERATURE)
    names = [str(path.relative_to(root)) for path in paths]
    assert names == [
        "discriminator/text/1",
        "discriminator/ids/1",
        "generator/text/1",
        "generator/ids/1",
    ]
    return root


@pytest.fixture(scope="module")
def loaded(root):
    """Returns a function from name to SavedModel, which loads each once."""
    cache = {}

    def load(name):
        if name not in cache:
            cache[name] = tf.saved_model.load(root / name / "1")
        return cache[name]

    return load


def _serve(loaded, name, texts):
    return loaded(name).serving_default(tf.constant(texts, tf.string))


def test_a_discriminator_gives_each_token_a_probability(model, loaded):
    inputs = _inputs(TEXTS)
    expected = _probability(model, inputs)
    assert np.ptp(expected[0]) > 0.01
    found = _serve(loaded, "discriminator/text", TEXTS)
    _assert_close(found["probability_replaced"], expected)
    of_ids = loaded("discriminator/ids").serving_default(*inputs)
    _assert_close(of_ids["probability_replaced"], expected)
    assert found["tokens"].numpy()[1].tolist() == [
        *(b"[CLS]", b"w1", b"w12", b"[SEP]"),
        *[b""] * 3,
    ]


def test_a_generator_fills_in_masks_only(model, loaded):
    found = _serve(loaded, "generator/text", MASKED)
    brackets = [1, 1, 1]  # [mask] is three unknown words, not a mask
    rows = [[2, 6, 4, 8, 4, *brackets, 3], [2, 4, 3], [2, 10, 3]]
    ids = tf.ragged.constant(rows, dtype=tf.int32)
    np.testing.assert_array_equal(found["input_ids"], ids.to_tensor())
    inputs = Inputs(
        found["input_ids"], found["input_mask"], tf.zeros_like(ids.to_tensor())
    )
    logits = _logits(model, inputs)
    of_ids = loaded("generator/ids").serving_default(*inputs)["logits"]
    _assert_close(of_ids, logits)
    probability = tf.nn.softmax(logits).numpy()
    is_mask = found["input_ids"].numpy() == 4
    best = np.argsort(-probability[is_mask])[:, :10]
    expected = np.array(tiny.VOCABULARY.tokens, "S")[best]
    np.testing.assert_array_equal(found["top_tokens"][is_mask], expected)
    _assert_close(
        found["top_probabilities"][is_mask],
        np.take_along_axis(probability[is_mask], best, 1),
    )
    assert set(found["top_tokens"][~is_mask].numpy().flat) == {b""}
    assert not found["top_probabilities"][~is_mask].numpy().any()


def test_an_mlm_is_exported_as_a_generator_over_an_older_export(tmp_path):
    mlm = MaskedLanguageModel(_config(objective="mlm"), tiny.VOCABULARY)
    root, inputs = tmp_path / "generator", tiny.batch(1)
    (root / "ids/1/assets").mkdir(parents=True)
    (root / "ids/1/assets/old").touch()
    assert export.export(mlm, tmp_path) == [root / "text/1", root / "ids/1"]
    assert not (root / "ids/1/assets/old").exists()
    states = mlm.electra(*inputs).sequence_output
    network = tf.saved_model.load(root / "ids/1")
    found = network.serving_default(*inputs)
    expected = mlm.generator_model.score(states)
    _assert_close(found["logits"], expected)


@pytest.mark.slow
def test_an_export_of_a_bfloat16_model_computes_in_float32(
    model, tmp_path, products_in_bfloat16
):
    rounded = Electra(_config(precision="bfloat16"), tiny.VOCABULARY)
    rounded.set_weights(model.get_weights())
    for path in export.export(rounded, tmp_path, temperature=TEMPERATURE)[1::2]:
        network, inputs = tf.saved_model.load(path), tiny.batch(2)
        name = path.parent.parent.name
        key, compute = {
            "discriminator": ("probability_replaced", _probability),
            "generator": ("logits", _logits),
        }[name]
        found = network.serving_default(*inputs)[key]
        np.testing.assert_allclose(found, compute(model, inputs), atol=1e-4)
        assert np.abs(found - compute(rounded, inputs)).max() > 1e-3
