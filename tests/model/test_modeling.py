import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.modeling import BertModel, shift_positions
from electra_tf.util import seeds

CONFIG = tiny.BERT


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
