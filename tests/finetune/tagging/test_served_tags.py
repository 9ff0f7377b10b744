"""Tags that a graph writes, against those of `in_encoding`."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetune.tagging.spans import (
    ENCODINGS,
    in_encoding,
    written_tags,
)

LABELS = ("O", *(f"{x}-{kind}" for kind in "XY" for x in "BIES"))


@pytest.mark.parametrize("original", [False, True])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_graph_writes_tags_of_any_order_as_in_encoding(encoding, original):
    random = np.random.default_rng(0)
    tags = random.integers(len(LABELS), size=(200, 8))
    sizes = random.integers(1, 9, size=200)
    is_word = np.arange(8) < sizes[:, np.newaxis]
    write = functools.partial(
        written_tags, labels=LABELS, encoding=encoding, original=original
    )
    found = tf.function(write)(tf.constant(tags, tf.int32), is_word).numpy()
    for size, numbers, row in zip(sizes, tags, found, strict=True):
        names = [LABELS[i] for i in numbers[:size]]
        expected = in_encoding(names, encoding, original=original)
        assert [x.decode() for x in row[:size]] == expected
        assert {*row[size:]} <= {b"O"}


@pytest.mark.parametrize("shape", [(0, 0), (2, 0), (0, 3)])
def test_sentences_without_words_have_no_tags(shape):
    tags, is_word = tf.zeros(shape, tf.int32), tf.zeros(shape, bool)
    found = written_tags(tags, is_word, LABELS, "IOB1", original=True)
    assert found.shape == shape
