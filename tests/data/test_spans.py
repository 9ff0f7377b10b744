"""Examples hold the text in order, all of it, in the shares they should."""

import doctest
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.data import spans


def num_tokens(span):
    special = 3 if span.end > span.split else 2
    return span.end - span.start + special


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 90), max_size=30),
    st.integers(5, 64),
    st.integers(0, 2**32),
)
def test_no_token_is_lost_moved_or_doubled(lengths, max_seq_length, seed):
    cut = spans.carry(lengths, max_seq_length, random.Random(seed))
    ends = [0, *(span.end for span in cut)]
    assert [span.start for span in cut] == ends[:-1]
    assert ends[-1] == sum(lengths)
    assert all(span.start < span.split <= span.end for span in cut)
    assert all(num_tokens(span) <= max_seq_length for span in cut)


@pytest.mark.parametrize("line_length", [7, 30, 91, 50_000])
def test_shares_are_the_nominal_ones_whatever_the_lines(line_length):
    lengths = [line_length] * (200_000 // line_length)
    cut = spans.carry(lengths, 128, random.Random(1))[:-1]
    sizes = np.array([num_tokens(span) for span in cut])
    two = np.mean([span.end > span.split for span in cut])
    assert np.mean(sizes == 128) == pytest.approx(0.95, abs=0.02)
    assert 5 <= sizes.min() < 30
    assert two == pytest.approx(0.9, abs=0.03)


def test_segments_end_with_lines_where_lines_are_short():
    cut = spans.carry([10] * 2000, 128, random.Random(3))
    splits = [span.split for span in cut if span.end > span.split]
    assert np.mean([split % 10 == 0 for split in splits]) > 0.9


def test_an_empty_document_gives_no_example():
    assert spans.carry([], 128, random.Random(0)) == []
    assert spans.carry([0, 0], 128, random.Random(0)) == []


def test_the_docstring_example_is_true():
    assert doctest.testmod(spans).attempted
    assert not doctest.testmod(spans).failed
