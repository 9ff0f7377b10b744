"""Examples hold the text in order, and share rows so that little is padding."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import packing, records
from electra_tf.data.packing import (
    MAX_EXAMPLES,
    Packer,
    carry,
    fill_rows,
    num_tokens,
)
from electra_tf.data.records import HELD_OUT, SPLITS, TRAIN, layout, serialize
from electra_tf.data.selection import Document
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary

LENGTH = 64
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"w{i}" for i in range(60_000))))
CLS, SEP = VOCABULARY.cls_id, VOCABULARY.sep_id
line_lengths = st.lists(st.integers(0, 90), max_size=30)
row_lengths = st.integers(5, 64)
seeds = st.integers(0, 2**32)


@settings(max_examples=100, deadline=None)
@given(line_lengths, row_lengths, seeds)
def test_no_token_is_lost_moved_or_doubled(lengths, max_seq_length, seed):
    ids, rng = range(sum(lengths)), random.Random(seed)
    examples = carry(ids, lengths, max_seq_length, rng)
    assert [i for x in examples for part in x for i in part] == [*ids]
    assert all(first for first, _ in examples)
    assert all(num_tokens(example) <= max_seq_length for example in examples)


@pytest.mark.parametrize("line_length", [7, 30, 91, 50_000])
def test_carry_draws_examples_at_nominal_rates(line_length):
    lengths = [line_length] * (200_000 // line_length)
    examples = carry(range(sum(lengths)), lengths, 128, random.Random(1))[:-1]
    sizes = np.array([num_tokens(example) for example in examples])
    two_segment_share = np.mean([len(second) > 0 for _, second in examples])
    assert np.mean(sizes == 128) == pytest.approx(0.95, abs=0.02)
    assert 5 <= sizes.min() < 30
    assert two_segment_share == pytest.approx(0.9, abs=0.03)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(3, 32), max_size=60))
def test_each_example_is_in_one_row_and_no_two_rows_would_fit(sizes):
    rows = fill_rows(sizes, 32)
    assert sorted(i for row in rows for i in row) == list(range(len(sizes)))
    assert all(row == sorted(row) for row in rows)
    filled = sorted(sum(sizes[i] for i in row) for row in rows)
    assert not filled or filled[-1] <= 32
    assert len(filled) < 2 or filled[0] + filled[1] > 32


def test_rows_are_full_but_for_the_limit_of_examples():
    rng = random.Random(0)
    sizes = [rng.randint(3, 128) for _ in range(2000)]
    num_rows = len(fill_rows(sizes, 128))
    assert sum(sizes) / (128 * num_rows) > 0.99
    rows = fill_rows([3] * 1000, 512)
    assert max(map(len, rows)) == MAX_EXAMPLES < 512 // 3


class _ListWriter(list):
    """A writer of records that keeps them in memory."""

    write = list.append


def test_examples_lie_one_after_the_other_in_a_row():
    """Golden records show that all text of a corpus gets there."""
    found = layout([[([5, 6], [7]), ([8], [])], [([9], [])]], 12, VOCABULARY)
    rows = [[CLS, 5, 6, SEP, 7, SEP, CLS, 8, SEP, 0, 0, 0], [CLS, 9, SEP]]
    rows[1] += [0] * 9
    np.testing.assert_array_equal(found.input_ids, rows)
    numbers = [[1] * 6 + [2] * 3 + [0] * 3, [1] * 3 + [0] * 9]
    np.testing.assert_array_equal(found.input_mask, numbers)
    segments = [[0] * 4 + [1] * 2 + [0] * 6, [0] * 12]
    np.testing.assert_array_equal(found.segment_ids, segments)
    parsed = records.parse(tf.constant(serialize(found)), 12)
    for name, array in found._asdict().items():
        np.testing.assert_array_equal(parsed[name], array)


def test_buffers_are_bounded(monkeypatch):
    monkeypatch.setattr(packing, "ROWS_AT_ONCE", 4)
    config = CorpusConfig(packing="packed", max_seq_length=LENGTH)
    packer = Packer(config, VOCABULARY, {x: _ListWriter() for x in SPLITS})
    for split in (TRAIN, HELD_OUT) * 100:
        packer.add(Document([], 0, split), np.full(150, 7), [15] * 10)
        counts = packer.counts
        buffered = counts["tokens_read"] - counts["tokens_kept"]
        assert buffered < len(SPLITS) * 4 * LENGTH
    monkeypatch.setattr(packing, "BATCH_CHARACTERS", 1)
    taken = itertools.count()
    documents = (Document(["w1"], next(taken), TRAIN) for _ in range(99))
    config = CorpusConfig(max_seq_length=LENGTH)
    monkeypatch.setattr(packing, "MAX_THREADS", 1)
    next(packing.tokenize(documents, config, VOCABULARY))
    assert next(taken) == 2, "one for the thread, and the one that is used"
