"""From texts to rows of ids, and to the batches of training and evaluation."""

import numpy as np
import tiny_finetuning as tiny

from electra_tf.finetune import preprocessing
from electra_tf.finetune.preprocessing import Features, TextTokenizer


def test_a_row_is_cls_text_sep_text_sep():
    row = preprocessing.join(
        tiny.VOCABULARY, np.array([7, 8]), np.array([9], np.int64)
    )
    assert row["input_ids"].tolist() == [2, 7, 8, 3, 9, 3]
    assert row["segment_ids"].tolist() == [0, 0, 0, 0, 1, 1]


def test_rows_of_texts_and_pairs_truncate_the_first_text(monkeypatch):
    monkeypatch.setattr(preprocessing, "_TEXTS_AT_ONCE", 2)
    tokenizer = TextTokenizer(tiny.VOCABULARY)
    columns = ["good film", "", "a plot is bad"], ["bad", "very", "the"]
    for count, length in ((1, 5), (2, 8)):
        rows = tokenizer.rows(*columns[:count], length=length)
        texts = zip(*map(tokenizer.tokenize, columns[:count]), strict=True)
        for row, (first, *second) in zip(rows, texts, strict=True):
            room = length - 2 - sum(1 + len(x) for x in second)
            expected = preprocessing.join(
                tiny.VOCABULARY, first[:room], *second
            )
            np.testing.assert_equal(row, expected)
            assert {x.dtype for x in row.values()} == {np.dtype(np.int32)}


SIZES = (3, 12, 5, 9, 2, 7, 11)


def _features(sizes=SIZES):
    rows = []
    for eid, size in enumerate(sizes):
        ids = np.arange(1, size + 1) + 100 * eid
        rows.append({"input_ids": ids, "eid": eid, "targets": eid / 2})
    return Features(rows)


def test_evaluation_sees_every_row_once_filled_up_with_zeros():
    seen = {}
    for indices, batch in _features().batches(batch_size=3):
        length = batch["input_ids"].shape[1]
        assert length % 8 == 0 and length - 8 < max(SIZES[i] for i in indices)
        for i, row in enumerate(indices):
            size = SIZES[row]
            expected = np.zeros(length, int)
            expected[:size] = np.arange(1, size + 1) + 100 * row
            np.testing.assert_array_equal(batch["input_ids"][i], expected)
            np.testing.assert_array_equal(
                batch["input_mask"][i], np.arange(length) < size
            )
            seen[int(row)] = float(batch["targets"][i])
    assert seen == {i: i / 2 for i in range(7)}


def test_a_batch_has_the_smallest_length_that_fits_its_longest_row():
    sizes = np.random.default_rng(0).geometric(0.1, 100) + 2
    sizes[50] = 83
    features = _features(sizes)
    order = features.order(75, 4, seed=3)
    np.testing.assert_array_equal(features.order(31, 4, seed=3), order[:31])
    choices = np.array([16, 32, 48, 64, 88])
    longest = features.lengths[order].max(1)
    smallest = choices[(choices < longest[:, np.newaxis]).sum(1)]
    lengths = features.padded_lengths(order)
    np.testing.assert_array_equal(lengths, smallest)
    merged = features.padded_lengths(order, min_batches=20)
    assert (merged >= lengths).all()
    counts = {n: (merged == n).sum() for n in np.unique(merged)}
    assert len(counts) < len(np.unique(lengths))
    assert min(counts[n] for n in sorted(counts)[:-1]) >= 20
    (batch,) = features.dataset(order[:1], 88)
    assert batch["input_ids"].shape == (4, 88)
    assert batch["eid"].numpy().tolist() == order[0].tolist()
