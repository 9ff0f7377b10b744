import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.text_reader import TextReader
from electra_tf.pretrain import texts
from electra_tf.pretrain.pretrain_data import Inputs

CORPUS = tiny.config().corpus
READER = TextReader(tiny.VOCABULARY, max_seq_length=tiny.LENGTH)
DOCUMENTS = ["w1 w2 w3\nw4 w5", "w6 w7 w8 " * 10, "", "w9"]
WORDS = [6, 7, 8, 9, 10] + [11, 12, 13] * 10 + [14]


@pytest.mark.parametrize("packing", ["carry", "packed"])
def test_no_word_is_lost(packing):
    config = dataclasses.replace(CORPUS, packing=packing)
    rows = texts.pack(DOCUMENTS, config, READER)
    ids = rows.input_ids
    assert sorted(ids[ids > tiny.VOCABULARY.mask_id]) == sorted(WORDS)
    assert rows.input_ids.shape[1] == tiny.LENGTH
    assert (rows.input_mask.max() > 1) == (packing == "packed")


def _dataset(rows):
    return tf.data.Dataset.from_tensor_slices(rows).batch(4)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: Inputs(*(np.array(x, np.int64) for x in rows)),
        lambda rows: rows._asdict(),
        lambda rows: _dataset(rows),
        lambda rows: _dataset((rows,)),
        lambda rows: _dataset(rows._asdict()),
    ],
)
def test_rows_in_any_container_give_the_same_batches(make):
    rows = tiny.batch(8)
    batches = texts.batches(make(rows), CORPUS, READER, batch_size=4)
    for parts, expected in zip(zip(*batches, strict=True), rows, strict=True):
        found = tf.concat(parts, 0)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == tf.int32
