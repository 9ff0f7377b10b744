"""Two towers predict each token from all others, and not from itself."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.util import seeds

CONFIG = dataclasses.replace(tiny.BERT, hidden_size=12, num_attention_heads=2)
T = 6


@pytest.fixture(scope="module")
def towers():
    with seeds.seed_initializers(0):
        return TwoTowerModel(CONFIG)


def _changed(function, position):
    """Returns bool [L]: where the output for full rows depends on a token."""
    inputs = tiny.batch(num_rows=1)
    ids = inputs.input_ids.numpy()
    ids[0, position] = 5 + (ids[0, position] + 1) % 50
    before, after = function(inputs), function(inputs._replace(input_ids=ids))
    return np.abs(before - after)[0].max(-1) > 1e-6


@pytest.mark.parametrize("position", [1, T, tiny.LENGTH - 2])
def test_a_token_is_predicted_from_all_others_and_not_from_itself(
    towers, position
):
    """[CLS] and the last [SEP] are not predicted: there states roll around."""
    changed = _changed(lambda x: towers(*x), position)
    inner = np.arange(1, tiny.LENGTH - 1)
    np.testing.assert_array_equal(changed[inner], inner != position)


def test_padding_changes_nothing_for_the_tokens_that_are_predicted(towers):
    inputs = tiny.batch()
    row, length = 3, int(tf.reduce_sum(inputs.input_mask[3]))
    assert length < tiny.LENGTH
    junk = inputs.input_ids + 7 * (1 - inputs.input_mask)
    whole = towers(junk, inputs.input_mask, inputs.segment_ids)
    alone = towers(*(x[row : row + 1, :length] for x in inputs))
    np.testing.assert_allclose(
        whole[row, 1 : length - 1], alone[0, 1 : length - 1], atol=1e-5
    )
