"""Examples hold the text in order; the original's rules give its examples."""

import doctest
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.pretrain import example_builder
from electra_tf.pretrain.example_builder import ExampleBuilder


def pack(lines, max_seq_length, seed, **kwargs):
    builder = ExampleBuilder(max_seq_length, random.Random(seed), **kwargs)
    examples = [e for line in lines for e in builder.add_line(line)]
    return examples + builder.end_document()


def number_lines(lengths):
    ids = iter(range(sum(lengths)))
    return [[next(ids) for _ in range(length)] for length in lengths]


def num_tokens(example):
    special = 3 if example.second else 2
    return len(example.first) + len(example.second) + special


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 90), max_size=30),
    st.integers(5, 64),
    st.integers(0, 2**32),
)
def test_no_token_is_lost_moved_or_doubled(lengths, max_seq_length, seed):
    examples = pack(number_lines(lengths), max_seq_length, seed)
    text = [i for example in examples for i in example.first + example.second]
    assert text == list(range(sum(lengths)))
    assert all(example.first for example in examples)
    assert all(num_tokens(e) <= max_seq_length for e in examples)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 90), max_size=30),
    st.integers(5, 64),
    st.integers(0, 2**32),
)
def test_the_originals_examples_hold_no_token_twice(lengths, length, seed):
    examples = pack(number_lines(lengths), length, seed, carry=False)
    text = [i for example in examples for i in example.first + example.second]
    assert len(set(text)) == len(text) <= sum(lengths)
    assert all(num_tokens(example) <= length for example in examples)


@pytest.mark.parametrize("line_length", [7, 30, 91, 50_000])
def test_shares_are_the_nominal_ones_whatever_the_lines(line_length):
    lines = number_lines([line_length] * (200_000 // line_length))
    examples = pack(lines, 128, seed=1)[:-1]
    lengths = np.array([num_tokens(example) for example in examples])
    two = np.mean([bool(example.second) for example in examples])
    assert np.mean(lengths == 128) == pytest.approx(0.95, abs=0.02)
    assert 5 <= lengths.min() < 30
    assert two == pytest.approx(0.9, abs=0.03)


def test_segments_end_with_lines_where_lines_are_short():
    lines = number_lines([10] * 2000)
    examples = pack(lines, 128, seed=3)
    ends = [e.first[-1] + 1 for e in examples if e.second]
    assert np.mean([end % 10 == 0 for end in ends]) > 0.9


def test_an_empty_document_gives_no_example():
    assert pack([[], []], 128, seed=0) == []


def test_the_docstring_example_is_true():
    assert doctest.testmod(example_builder).attempted
    assert not doctest.testmod(example_builder).failed
