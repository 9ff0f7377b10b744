"""What becomes of lines on their way into rows."""

import random

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import packing, record_format
from electra_tf.data.held_out import Document
from electra_tf.data.lengths import Lengths
from electra_tf.data.record_format import TRAIN, Kind, kinds
from electra_tf.model.tokenization import Vocabulary

LENGTH = 64
WORDS = ("chef", "meal", "cook", "salt", "pan", "oven", "fork", "plate")
VOCABULARY = Vocabulary(
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS)
)
SEP, STOP = VOCABULARY.sep_id, VOCABULARY.tokens.index(".")


def _paragraph(seed):
    rng = random.Random(seed)
    sentences = (
        " ".join(rng.choices(WORDS, k=rng.randint(2, 12))).capitalize()
        for _ in range(40)
    )
    return "".join(f"{sentence}. " for sentence in sentences)


def _pack(**settings):
    """Returns the ids and segments of one-line documents, int [rows, L]."""
    config = CorpusConfig(max_seq_length=LENGTH, **settings)
    writers = {kind: _List() for kind in kinds(config)}
    documents = (Document([_paragraph(i)], i, TRAIN) for i in range(60))
    packing.pack(
        documents,
        config,
        VOCABULARY,
        writers,
        lengths={TRAIN: Lengths()},
        num_threads=1,
    )
    records = tf.constant(writers[Kind(LENGTH, TRAIN, LENGTH)])
    parsed = record_format.parse(records, LENGTH)
    return parsed["input_ids"].numpy(), parsed["segment_ids"].numpy()


class _List(list):
    """A writer into memory."""

    write = list.append


def _share_after_a_stop(ids, segments):
    """Returns how many of the second segments follow a full stop."""
    firsts = np.argmax(segments, axis=1)[segments.any(1)]
    rows = ids[segments.any(1)]
    return np.mean(rows[np.arange(len(rows)), firsts - 2] == STOP)


def test_segments_begin_with_sentences_where_lines_are_split():
    plain, split = _pack(), _pack(split_sentences=True)
    assert _share_after_a_stop(*plain) < 0.4
    assert _share_after_a_stop(*split) > 0.97
    words, split_words = (ids[ids > SEP] for ids in (plain[0], split[0]))
    np.testing.assert_array_equal(words, split_words)
