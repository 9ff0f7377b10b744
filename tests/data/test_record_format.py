"""Records have the features that the original writes."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.data import record_format
from electra_tf.data.packing_rules import ExampleSpan
from electra_tf.data.record_format import Rows, layout, serialize
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"w{i}" for i in range(20000))))
LENGTH = 40
ids = st.integers(0, VOCABULARY.size - 1)


def records_of(examples):
    """Returns the records of examples, each two lists of ids."""
    tokens, spans = [], []
    for first, second in examples:
        start = len(tokens)
        tokens += first + second
        spans.append(ExampleSpan(start, start + len(first), len(tokens)))
    rows = [[span] for span in spans]
    return serialize(layout(np.array(tokens), rows, LENGTH, VOCABULARY))


def features_of(first, second):
    """Returns the expected features of an example, by name."""
    cls, sep = VOCABULARY.cls_id, VOCABULARY.sep_id
    tokens = [cls, *first, sep, *second] + [sep] * bool(second)
    num_first = len(first) + 2
    padding = [0] * (LENGTH - len(tokens))
    num_second = len(tokens) - num_first
    return {
        "input_ids": tokens + padding,
        "input_mask": [1] * len(tokens) + padding,
        "segment_ids": [0] * num_first + [1] * num_second + padding,
    }


first = st.lists(ids, min_size=1, max_size=20)
second = st.lists(ids, max_size=LENGTH - 23)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(first, second), min_size=1, max_size=6))
def test_records_hold_specials_segments_and_padding(examples):
    for record, example in zip(records_of(examples), examples, strict=True):
        features = tf.train.Example.FromString(record).features.feature
        assert {
            name: list(feature.int64_list.value)
            for name, feature in features.items()
        } == features_of(*example)


@given(st.lists(st.integers(0, 2**28 - 1), min_size=8, max_size=8))
def test_numbers_of_every_size_are_encoded(numbers):
    flags = np.zeros((2, 4), np.uint8)
    rows = Rows(np.array(numbers).reshape(2, 4), flags, flags)
    for row, record in enumerate(serialize(rows)):
        features = tf.train.Example.FromString(record).features.feature
        found = features["input_ids"].int64_list.value
        assert list(found) == numbers[4 * row : 4 * row + 4]


def test_no_examples_are_no_records():
    assert records_of([]) == []


def test_tensorflow_parses_the_records():
    records = records_of([([7, 300], [20000]), ([5], [])])
    parsed = record_format.parse(tf.constant(records), LENGTH)
    assert parsed["input_ids"][0, :7].numpy().tolist() == [
        2, 7, 300, 3, 20000, 3, 0,
    ]  # fmt: skip
    assert parsed["input_mask"].numpy().sum(1).tolist() == [6, 3]
    assert parsed["segment_ids"].numpy().sum(1).tolist() == [2, 0]
