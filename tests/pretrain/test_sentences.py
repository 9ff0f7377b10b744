"""Rearranged rows against rows written out by hand."""

import numpy as np
import tensorflow as tf
import tiny

from electra_tf.pretrain import sentences
from electra_tf.pretrain.pretrain_data import Inputs

C, S = tiny.VOCABULARY.cls_id, tiny.VOCABULARY.sep_id
LENGTH = 10


def _rows(*pairs):
    """Makes rows [CLS] A [SEP] B [SEP], without B or all of padding."""
    arrays = np.zeros((3, len(pairs), LENGTH), np.int32)
    for row, (first, *second) in enumerate(pairs):
        a = [C, *first, S] if first else []
        b = [*second[0], S] if second else []
        size = len(a + b)
        arrays[0, row, :size] = a + b
        arrays[1, row, :size] = 1
        arrays[2, row, len(a) : size] = 1
    return Inputs(*map(tf.constant, arrays))


def _assert_equal(found, *expected):
    parts = (*found.inputs, found.labels, found.weights)
    for part, value in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part, value)


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
    _assert_equal(found, *_rows(*swapped), [1, 0, 0, 0, 1], [1, 1, 0, 0, 1])


def test_neighbours_exchange_segments_of_one_length():
    inputs = _rows(*PAIRS)
    for chosen, labels in (([True] * 5, [1, 1]), ([False, True] * 2, [0, 1])):
        chosen = tf.constant((chosen * 2)[:5])
        found = sentences.exchange_segments(inputs, chosen, tiny.VOCABULARY)
        segments = ([21, 22], [41, 42])
        first = (PAIRS[0][0], segments[labels[0]])
        second = (PAIRS[1][0], segments[1 - labels[1]])
        rows = _rows(first, second, *PAIRS[2:])
        _assert_equal(found, *rows, [*labels, 0, 0, 0], [1, 1, 0, 0, 0])
