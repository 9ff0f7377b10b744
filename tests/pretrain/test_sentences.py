"""Rearranged rows against rows written out by hand."""

import numpy as np
import tensorflow as tf
import tiny

from electra_tf.pretrain import sentences
from electra_tf.pretrain.pretrain_data import Inputs

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
