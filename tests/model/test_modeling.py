import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.modeling import BertModel, shift_positions
from electra_tf.util import seeds

CONFIG = tiny.BERT


@pytest.fixture(scope="module")
def model():
    return tiny.encoder()


def _norm(x, weights, scope):
    centered = x - x.mean(-1, keepdims=True)
    normed = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
    gamma, beta = (weights[f"{scope}/LayerNorm/{n}"] for n in ("gamma", "beta"))
    return normed * gamma + beta


def _dense(x, weights, scope):
    return x @ weights[f"{scope}/kernel"] + weights[f"{scope}/bias"]


def _gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _attention(x, mask, weights, scope):
    """Computes attention by its formula, row by row and head by head."""
    query, key, value = (
        _dense(x, weights, f"{scope}/self/{n}")
        for n in ("query", "key", "value")
    )
    context = np.zeros_like(query)
    for row in range(len(x)):
        real = mask[row] > 0
        for head in np.split(np.arange(16), 4):
            scores = query[row][:, head] @ key[row][real][:, head].T / 2.0
            probs = np.exp(scores)
            probs /= probs.sum(-1, keepdims=True)
            context[row][:, head] = probs @ value[row][real][:, head]
    return _dense(context, weights, f"{scope}/output/dense")


def _encode(inputs, weights):
    """Computes the states of every layer from the original's formulas."""
    ids, mask, segments = (np.asarray(x) for x in inputs)
    scope = "electra/embeddings"
    x = weights[f"{scope}/word_embeddings"][ids]
    x = x + weights[f"{scope}/token_type_embeddings"][segments]
    x = x + weights[f"{scope}/position_embeddings"][: ids.shape[1]]
    x = _norm(x, weights, scope)
    x = _dense(x, weights, "electra/embeddings_project")
    states = []
    for layer in range(2):
        scope = f"electra/encoder/layer_{layer}"
        y = _attention(x, mask, weights, f"{scope}/attention")
        x = _norm(x + y, weights, f"{scope}/attention/output")
        y = _gelu(_dense(x, weights, f"{scope}/intermediate/dense"))
        y = _dense(y, weights, f"{scope}/output/dense")
        x = _norm(x + y, weights, f"{scope}/output")
        states.append(x)
    return states


def test_states_equal_the_formulas(model):
    inputs = tiny.batch()
    weights = {v.path: v.numpy().astype(np.float64) for v in model.weights}
    output = model(*inputs)
    states = _encode(inputs, weights)
    real = inputs.input_mask.numpy() > 0
    for actual, expected in zip(output.all_layers, states, strict=True):
        np.testing.assert_allclose(actual[real], expected[real], atol=2e-5)
    np.testing.assert_array_equal(output.sequence_output, output.all_layers[-1])
    np.testing.assert_array_equal(
        output.pooled_output, output.sequence_output[:, 0]
    )


def test_dropout_acts_only_with_keys(model):
    inputs = tiny.batch()
    keys = seeds.row_keys(0, tf.constant(0), tf.range(8))
    plain = model(*inputs).sequence_output
    np.testing.assert_array_equal(model(*inputs).sequence_output, plain)
    dropped = model(*inputs, keys=keys).sequence_output
    assert np.abs(dropped - plain).max() > 0.01
    np.testing.assert_array_equal(
        model(*inputs, keys=keys).sequence_output, dropped
    )


def test_all_random_numbers_of_a_row_have_keys_of_their_own(monkeypatch):
    drawn, draw = [], seeds.random_bits

    def record(keys, shape):
        drawn.extend(keys.numpy().tolist())
        return draw(keys, shape)

    monkeypatch.setattr(seeds, "random_bits", record)
    rates = dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.1
    )
    encoder = BertModel(dataclasses.replace(CONFIG, **rates))
    shift_positions(encoder, tiny.LENGTH + 8)
    keys = seeds.row_keys(0, tf.constant(0), tf.range(8))
    encoder(*tiny.batch(), keys=keys)
    # The shift, the embeddings, and three places of each layer.
    num_places = 2 + 3 * CONFIG.num_hidden_layers
    assert len(drawn) == len({*drawn}) == 8 * num_places


def _encoder_without_dropout(**options):
    rates = dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0
    )
    with seeds.seed_initializers(0):
        encoder = BertModel(dataclasses.replace(CONFIG, **rates), **options)
        encoder.build((None, None))
    return encoder


def _started_at(encoder, inputs, start):
    """Returns the states of rows whose first token is at position `start`."""
    table = encoder.embeddings.position_embeddings
    value = table.numpy()
    table.assign(np.roll(value, -start, axis=0))
    states = encoder(*inputs).sequence_output.numpy()
    table.assign(value)
    return states


@pytest.mark.parametrize("is_packed", [False, True])
def test_shifted_rows_start_wherever_they_end_before_the_limit(is_packed):
    encoder = _encoder_without_dropout(is_packed=is_packed)
    make = tiny.packed_batch if is_packed else tiny.batch
    inputs, length = make(num_rows=64), tiny.LENGTH
    keys = seeds.row_keys(0, tf.constant(0), tf.range(64))
    shift_positions(encoder, length + 3)
    expected = [_started_at(encoder, inputs, start) for start in range(5)]
    states = encoder(*inputs, keys=keys).sequence_output.numpy()
    real = inputs.input_mask.numpy()[..., np.newaxis] > 0
    errors = [np.abs((x - states) * real).max((1, 2)) for x in expected]
    assert (np.min(errors, 0) < 1e-5).all()
    assert {*np.argmin(errors, 0)} == {0, 1, 2, 3}


def test_only_short_rows_in_training_are_shifted():
    encoder = _encoder_without_dropout()
    inputs = tiny.batch()
    keys = seeds.row_keys(0, tf.constant(0), tf.range(8))
    unshifted = encoder(*inputs).sequence_output
    for limit, is_same in ((tiny.LENGTH, True), (tiny.LENGTH + 8, False)):
        shift_positions(encoder, limit)
        np.testing.assert_array_equal(
            encoder(*inputs).sequence_output, unshifted
        )
        trained = encoder(*inputs, keys=keys).sequence_output
        assert (np.abs(trained - unshifted).max() < 1e-6) == is_same


def test_initial_weights_follow_the_original():
    config = dataclasses.replace(
        CONFIG, hidden_size=128, initializer_range=0.02
    )
    with seeds.seed_initializers(0):
        model = BertModel(config)
        model.build((None, None))
    for variable in model.weights:
        value = variable.numpy()
        if variable.path.endswith(("bias", "beta")):
            assert (value == 0).all()
        elif variable.path.endswith("gamma"):
            assert (value == 1).all()
        elif "project" in variable.path:  # Glorot uniform
            limit = math.sqrt(6 / (8 + 128))
            assert 0.9 * limit < np.abs(value).max() <= limit
        else:  # normal, cut at two standard deviations
            assert np.abs(value).max() <= 0.04 + 1e-6
            assert 0.015 < value.std() < 0.02
