"""Rearranged rows against rows written out by hand."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import sentences
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util import seeds

C, S = tiny.VOCABULARY.cls_id, tiny.VOCABULARY.sep_id
LENGTH = 10


def _rows(*parts):
    """Makes rows [CLS] A [SEP] B [SEP]; a tuple of one list has no B."""
    arrays = np.zeros((3, len(parts), LENGTH), np.int32)
    for row, (first, *second) in enumerate(parts):
        ids = [C, *first, S]
        segments = [0] * len(ids)
        for rest in second:
            ids += [*rest, S]
            segments += [1] * (len(rest) + 1)
        size = len(ids) if first else 0
        arrays[0, row, :size] = ids[:size]
        arrays[1, row, :size] = 1
        arrays[2, row, :size] = segments[:size]
    return Inputs(*map(tf.constant, arrays))


def _assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


PAIRS = (
    ([11, 12, 13], [21, 22]),
    ([31], [41, 42, 43, 44]),
    ([51, 52],),
    ([],),
    ([6, 7], [8]),
)


def test_segments_are_swapped_where_there_are_two():
    inputs = _rows(*PAIRS)
    chosen = tf.constant([True, False, True, True, True])
    found = sentences.swap_segments(inputs, chosen, tiny.VOCABULARY)
    swapped = (PAIRS[0][::-1], *PAIRS[1:4], PAIRS[4][::-1])
    _assert_equal(found.inputs, _rows(*swapped))
    np.testing.assert_array_equal(found.labels, [1, 0, 0, 0, 1])
    np.testing.assert_array_equal(found.weights, [1, 1, 0, 0, 1])


def test_neighbours_exchange_segments_of_one_length():
    inputs = _rows(*PAIRS)
    for chosen, labels in (([True] * 5, [1, 1]), ([False, True] * 2, [0, 1])):
        chosen = tf.constant((chosen * 2)[:5])
        found = sentences.exchange_segments(inputs, chosen, tiny.VOCABULARY)
        segments = ([21, 22], [41, 42])
        expected = (
            (PAIRS[0][0], segments[labels[0]]),
            (PAIRS[1][0], segments[1 - labels[1]]),
            *PAIRS[2:],
        )
        _assert_equal(found.inputs, _rows(*expected))
        np.testing.assert_array_equal(found.labels, [*labels, 0, 0, 0])
        np.testing.assert_array_equal(found.weights, [1, 1, 0, 0, 0])


@pytest.mark.parametrize("loss", sentences.REARRANGEMENTS)
def test_half_of_the_rows_change_and_length_does_not_reveal_which(loss):
    rng = np.random.default_rng(0)
    rows = _rows(
        *(
            (list(range(5, 6 + n)), list(range(15, 16 + m)))
            for n, m in rng.integers(0, 3, (2000, 2))
        )
    )
    config = tiny.config(sentence_loss=loss).sentence
    keys = seeds.row_keys(0, tf.constant(0), tf.range(2000))
    found = sentences.rearrange(rows, config, tiny.VOCABULARY, keys)
    labels = found.labels.numpy()
    sizes = found.inputs.input_mask.numpy().sum(1)
    assert found.weights.numpy().all()
    assert abs(labels.mean() - 0.5) < 0.05
    assert abs(sizes[labels > 0].mean() - sizes[labels < 1].mean()) < 0.1
    np.testing.assert_array_equal(
        found.inputs.input_mask, found.inputs.input_ids > 0
    )
