"""Two towers predict each token from all others, and not from itself."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.two_tower import TOWERS, TwoTowerModel
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


@pytest.mark.parametrize("tower", TOWERS)
def test_a_tower_reads_in_its_direction(towers, tower):
    encoder = {t.name: t for t in towers.towers}[tower]
    changed = _changed(lambda x: encoder(*x).sequence_output, T)
    columns = np.arange(tiny.LENGTH)
    reads = columns >= T if tower == "generator_ltr" else columns <= T
    np.testing.assert_array_equal(changed, reads)


@pytest.mark.parametrize("position", [1, T, tiny.LENGTH - 2])
def test_a_token_is_predicted_from_all_others_and_not_from_itself(
    towers, position
):
    """[CLS] and the last [SEP] are not predicted: there states roll around."""
    changed = _changed(lambda x: towers(*x), position)
    inner = np.arange(1, tiny.LENGTH - 1)
    np.testing.assert_array_equal(changed[inner], inner != position)


def test_states_are_those_of_both_neighbours(towers):
    inputs = tiny.batch()
    left, right = (t(*inputs).sequence_output for t in towers.towers)
    states = towers(*inputs).numpy()
    np.testing.assert_array_equal(states[:, 1:, :12], left[:, :-1])
    np.testing.assert_array_equal(states[:, :-1, 12:], right[:, 1:])


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


def test_towers_have_different_dropout():
    towers = TwoTowerModel(CONFIG)
    inputs = tiny.batch()
    keys = seeds.row_keys(0, tf.constant(0), tf.range(8))
    ltr, rtl = towers.towers
    for variable, other in zip(ltr.variables, rtl.variables, strict=True):
        other.assign(variable)
    ones = tuple(tf.ones_like(x[:, :1]) for x in inputs)  # one token: no order
    states = towers(*ones, keys=keys).numpy()
    np.testing.assert_array_equal(*np.split(towers(*ones).numpy(), 2, -1))
    assert np.abs(np.subtract(*np.split(states, 2, -1))).max() > 0.01
