"""The rows that each way of packing makes of documents, token for token."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import packing, record_format
from electra_tf.data.held_out import Document
from electra_tf.data.packing import Packer, Tokenized
from electra_tf.data.record_format import HELD_OUT, TRAIN, RecordKind, kinds
from electra_tf.data.summaries import Summary
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary

LENGTH = 64
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"w{i}" for i in range(60_000))))
CLS, SEP = VOCABULARY.cls_id, VOCABULARY.sep_id


class _ListWriter(list):
    """A writer of records that keeps them in memory."""

    write = list.append


def make_documents(number=250, seed=0):
    """Returns documents of very different lengths; no token occurs twice."""
    rng, ids = random.Random(seed), itertools.count(len(SPECIAL_TOKENS))
    documents = []
    for key in range(number):
        size = 1 + int(rng.lognormvariate(4.0, 1.0))
        lengths = [min(17, size - i) for i in range(0, size, 17)]
        split = HELD_OUT if key % 7 == 0 else TRAIN
        tokens = np.array([next(ids) for _ in range(size)])
        documents.append(Tokenized(Document([], key, split), tokens, lengths))
    return documents


DOCUMENTS = make_documents()


def make_packer(way):
    """Returns a packer, its counts, and its writers."""
    config = CorpusConfig(packing=way, max_seq_length=LENGTH)
    writers = {kind: _ListWriter() for kind in kinds(config)}
    (packed,) = Summary.empty(1, VOCABULARY.size).packed
    packer = Packer(config, VOCABULARY, writers, packed)
    return packer, packed.counts, writers


def pack(way):
    """Returns the counts, and the features of each split, int [rows, 3, L]."""
    packer, counts, writers = make_packer(way)
    for document in DOCUMENTS:
        packer.add(document)
    packer.flush()
    features = {
        kind.split: record_format.parse(tf.constant(records), LENGTH)
        for kind, records in writers.items()
    }
    return counts, {
        split: np.stack([parsed[name] for name in record_format.FEATURES], 1)
        for split, parsed in features.items()
    }


def examples_of(row):
    """Checks the layout of a row; returns the word ids of each example."""
    ids, numbers, segments = row
    end, found = 0, []
    for number in range(1, numbers.max() + 1):
        start, end = end, end + (numbers == number).sum()
        assert (numbers[start:end] == number).all()
        example_ids = ids[start:end]
        seps = np.flatnonzero(example_ids == SEP)
        assert example_ids[0] == CLS and (example_ids == CLS).sum() == 1
        assert seps[-1] == len(example_ids) - 1 and len(seps) <= 2
        is_second = np.arange(len(example_ids)) > seps[0]
        np.testing.assert_array_equal(segments[start:end], is_second)
        found.append(example_ids[example_ids >= len(SPECIAL_TOKENS)])
    assert not row[:, end:].any()
    return found


@pytest.fixture(scope="module")
def packed():
    return pack("packed")


def test_packed_rows_hold_every_token_once_and_documents_in_order(packed):
    _, rows = packed
    document_of = np.repeat(
        np.arange(len(DOCUMENTS)), [len(d.ids) for d in DOCUMENTS]
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
        ours = [d.ids for d in DOCUMENTS if d.document.split == split]
        assert sorted(words) == sorted(np.concatenate(ours))


def test_documents_share_rows_and_leave_little_room(packed):
    counts, rows = packed
    both = np.concatenate(list(rows.values()))
    assert (both[:, 1].max(1) > 1).mean() > 0.3
    assert (both[:, 1] == 0).mean() < 0.02
    carried, plain = pack("carry")
    assert carried["examples"] == carried["records"] == counts["examples"]
    padding = np.concatenate(list(plain.values()))[:, 1] == 0
    assert padding.mean() > 0.15


@pytest.mark.parametrize("way", ["carry", "original", "packed"])
def test_packing_counts_agree_with_the_rows(way):
    counts, rows = pack(way)
    both = np.concatenate(list(rows.values()))
    ids, numbers, _ = both.swapaxes(0, 1)
    num_words = (ids >= len(SPECIAL_TOKENS)).sum()
    num_read = sum(len(d.ids) for d in DOCUMENTS)
    assert counts["tokens_read"] == num_read
    assert counts["tokens_kept"] == num_words
    assert (num_read == num_words) == (way != "original")
    assert counts["special_tokens"] == (numbers > 0).sum() - num_words
    assert counts["records"] == len(both)
    assert counts["held_out_records"] == len(rows[HELD_OUT])
    assert counts["examples"] == (ids == CLS).sum()
    assert (numbers.max() > 1) == (way == "packed")


def test_each_document_draws_for_itself():
    packer, counts, writers = make_packer("carry")
    words = np.arange(10, 10 + 2 * LENGTH)
    for key in range(500):
        document = Document([], key, TRAIN)
        packer.add(Tokenized(document, words, [len(words)]))
    packer.add(Tokenized(Document([], 0, HELD_OUT), words[:0], [0]))
    packer.flush()
    (_, records), *_ = writers.items()
    rows = record_format.parse(tf.constant(records), LENGTH)
    is_first = rows["input_ids"][:, 1] == words[0]
    is_one_segment = ~rows["segment_ids"].numpy()[is_first].any(1)
    assert len(is_one_segment) == 500
    assert is_one_segment.mean() == pytest.approx(0.1, abs=0.05)
    assert counts["documents_without_tokens"] == 1


@pytest.mark.parametrize("way", ["carry", "original", "packed"])
def test_a_document_shorter_than_a_row_is_an_example(way):
    packer, counts, _ = make_packer(way)
    for key in range(3):
        document = Document([], key, TRAIN)
        packer.add(Tokenized(document, np.array([7, 8]), [1, 1]))
    packer.flush()
    assert (counts["examples"], counts["tokens_kept"]) == (3, 6)


def test_the_buffer_is_bounded(monkeypatch):
    monkeypatch.setattr(packing, "ROWS_AT_ONCE", 4)
    packer, counts, writers = make_packer("packed")
    for document in DOCUMENTS:
        packer.add(document)
        buffered = counts["tokens_read"] - counts["tokens_kept"]
        assert buffered < len(writers) * 4 * LENGTH


WORDS = ("chef", "meal", "cook", "salt", "pan", "oven", "fork", "plate")
SENTENCES = Vocabulary((*SPECIAL_TOKENS, ".", *WORDS))
STOP = SENTENCES.tokens.index(".")


def _paragraph(seed):
    rng = random.Random(seed)
    sentences = (
        " ".join(rng.choices(WORDS, k=rng.randint(2, 12))).capitalize()
        for _ in range(40)
    )
    return "".join(f"{sentence}. " for sentence in sentences)


def pack_text(**settings):
    """Returns the ids and segments of one-line documents, int [rows, L]."""
    config = CorpusConfig(max_seq_length=LENGTH, **settings)
    writers = {kind: _ListWriter() for kind in kinds(config)}
    documents = (Document([_paragraph(i)], i, TRAIN) for i in range(60))
    packing.pack(
        documents,
        config,
        SENTENCES,
        writers,
        Summary.empty(1, SENTENCES.size),
        num_threads=1,
    )
    records = tf.constant(writers[RecordKind(LENGTH, TRAIN, LENGTH)])
    parsed = record_format.parse(records, LENGTH)
    return parsed["input_ids"].numpy(), parsed["segment_ids"].numpy()


def test_text_is_tokenized_little_ahead_of_its_use(monkeypatch):
    monkeypatch.setattr(packing, "BATCH_CHARACTERS", 1)
    taken = itertools.count()
    documents = (Document(["chef"], next(taken), TRAIN) for _ in range(99))
    config = CorpusConfig(max_seq_length=LENGTH)
    next(packing._tokenize(documents, config, SENTENCES, 2))
    assert next(taken) == 3, "one for each thread, and the one that is used"


def _share_after_a_stop(ids, segments):
    """Returns the share of second segments that follow a full stop."""
    firsts = np.argmax(segments, axis=1)[segments.any(1)]
    rows = ids[segments.any(1)]
    return np.mean(rows[np.arange(len(rows)), firsts - 2] == STOP)


def test_segments_begin_with_sentences_where_lines_are_split():
    plain, split = pack_text(), pack_text(split_sentences=True)
    assert _share_after_a_stop(*plain) < 0.4
    assert _share_after_a_stop(*split) > 0.97
    words, split_words = (ids[ids > SEP] for ids in (plain[0], split[0]))
    np.testing.assert_array_equal(words, split_words)
