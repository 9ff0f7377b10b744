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
from electra_tf.data.records import HELD_OUT, SPLITS, TRAIN
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


def make_documents(number=250, seed=0):
    """Returns documents of very different lengths; no token occurs twice."""
    rng, tokens = random.Random(seed), itertools.count(len(SPECIAL_TOKENS))
    documents = []
    for key in range(number):
        size = 1 + int(rng.lognormvariate(4.0, 1.0))
        lengths = [min(17, size - i) for i in range(0, size, 17)]
        split = HELD_OUT if key % 7 == 0 else TRAIN
        array = np.array([next(tokens) for _ in range(size)])
        documents.append((Document([], key, split), array, lengths))
    return documents


DOCUMENTS = make_documents()


def make_packer(way):
    config = CorpusConfig(packing=way, max_seq_length=LENGTH)
    writers = {split: _ListWriter() for split in SPLITS}
    return Packer(config, VOCABULARY, writers), writers


def pack(way):
    """Returns the counts, and the features of each split, int [rows, 3, L]."""
    packer, writers = make_packer(way)
    for document in DOCUMENTS:
        packer.add(*document)
    packer.flush()
    features = {
        split: records.parse(tf.constant(written), LENGTH)
        for split, written in writers.items()
    }
    return packer.counts, {
        split: np.stack([parsed[name] for name in records.FEATURES], 1)
        for split, parsed in features.items()
    }


def examples_of(row):
    """Checks the layout of a row; returns the word ids of each example."""
    tokens, numbers, segments = row
    end, found = 0, []
    for number in range(1, numbers.max() + 1):
        start, end = end, end + (numbers == number).sum()
        assert (numbers[start:end] == number).all()
        example_ids = tokens[start:end]
        seps = np.flatnonzero(example_ids == SEP)
        assert example_ids[0] == CLS and (example_ids == CLS).sum() == 1
        assert seps[-1] == len(example_ids) - 1 and len(seps) <= 2
        is_second = np.arange(len(example_ids)) > seps[0]
        np.testing.assert_array_equal(segments[start:end], is_second)
        found.append(example_ids[example_ids >= len(SPECIAL_TOKENS)])
    assert not row[:, end:].any()
    return found


def test_packed_rows_hold_every_token_once_and_documents_in_order():
    counts, rows = pack("packed")
    assert counts["slots"] == LENGTH * sum(map(len, rows.values()))
    document_of = np.repeat(
        np.arange(len(DOCUMENTS)), [len(x) for _, x, _ in DOCUMENTS]
    )
    seen = {split: [] for split in rows}
    for split, row in ((s, row) for s in rows for row in rows[s]):
        ends = {}
        for words in examples_of(row):
            np.testing.assert_array_equal(np.diff(words), 1)
            documents = set(document_of[words - len(SPECIAL_TOKENS)])
            assert len(documents) == 1
            assert ends.get(min(documents), 0) < words[0]
            ends[min(documents)] = words[-1]
            seen[split] += words.tolist()
    for split, words in seen.items():
        ours = [x for document, x, _ in DOCUMENTS if document.split == split]
        assert sorted(words) == sorted(np.concatenate(ours))
    both = np.concatenate(list(rows.values()))
    assert (both[:, 1] == 0).mean() < 0.02
    carried, plain = pack("carry")
    assert carried["examples"] == counts["examples"]
    padding = np.concatenate(list(plain.values()))[:, 1] == 0
    assert padding.mean() > 0.15


def test_buffers_are_bounded(monkeypatch):
    monkeypatch.setattr(packing, "ROWS_AT_ONCE", 4)
    packer, writers = make_packer("packed")
    for document in DOCUMENTS:
        packer.add(*document)
        counts = packer.counts
        buffered = counts["tokens_read"] - counts["tokens_kept"]
        assert buffered < len(writers) * 4 * LENGTH
    monkeypatch.setattr(packing, "BATCH_CHARACTERS", 1)
    taken = itertools.count()
    documents = (Document(["w1"], next(taken), TRAIN) for _ in range(99))
    config = CorpusConfig(max_seq_length=LENGTH)
    monkeypatch.setattr(packing, "MAX_THREADS", 1)
    next(packing.tokenize(documents, config, VOCABULARY))
    assert next(taken) == 2, "one for the thread, and the one that is used"
