"""The original's rules; its own records are in `replay/test_data.py`."""

import doctest
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.data import example_builder
from electra_tf.data.example_builder import ExampleBuilder


def pack(lengths, max_seq_length, seed):
    builder = ExampleBuilder(max_seq_length, random.Random(seed))
    ids = iter(range(sum(lengths)))
    lines = [[next(ids) for _ in range(length)] for length in lengths]
    examples = [e for line in lines for e in builder.add_line(line)]
    return examples + builder.end_document()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 90), max_size=30),
    st.integers(5, 64),
    st.integers(0, 2**32),
)
def test_examples_hold_no_token_twice_and_fit(lengths, max_seq_length, seed):
    examples = pack(lengths, max_seq_length, seed)
    text = [i for example in examples for i in example.first + example.second]
    assert len(set(text)) == len(text) <= sum(lengths)
    for first, second in examples:
        special = 3 if second else 2
        assert len(first) + len(second) + special <= max_seq_length


def test_the_overflow_is_dropped():
    examples = pack([100], 16, seed=0)
    assert [len(e.first) + len(e.second) for e in examples] == [14]


def test_an_empty_document_gives_no_example():
    assert pack([0, 0], 128, seed=0) == []


def test_the_docstring_example_is_true():
    assert doctest.testmod(example_builder).attempted
    assert not doctest.testmod(example_builder).failed
