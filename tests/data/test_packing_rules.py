"""Examples hold the text in order, and share rows so that little is padding."""

import doctest
import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.data import packing_rules
from electra_tf.data.packing_rules import (
    MAX_EXAMPLES,
    Example,
    ExampleBuilder,
    carry,
    fill_rows,
)

LENGTH = 32
line_lengths = st.lists(st.integers(0, 90), max_size=30)
row_lengths = st.integers(5, 64)
seeds = st.integers(0, 2**32)
sizes_of_examples = st.lists(st.integers(3, LENGTH), max_size=60)


def test_the_docstring_examples_are_true():
    assert doctest.testmod(packing_rules).attempted >= 4
    assert not doctest.testmod(packing_rules).failed


@settings(max_examples=200, deadline=None)
@given(line_lengths, row_lengths, seeds)
def test_no_token_is_lost_moved_or_doubled(lengths, max_seq_length, seed):
    spans = carry(lengths, max_seq_length, random.Random(seed))
    ends = [0, *(span.end for span in spans)]
    assert [span.start for span in spans] == ends[:-1]
    assert ends[-1] == sum(lengths)
    assert all(span.start < span.split <= span.end for span in spans)
    assert all(span.num_tokens <= max_seq_length for span in spans)


@pytest.mark.parametrize("line_length", [7, 30, 91, 50_000])
def test_carry_draws_short_and_one_segment_examples_at_nominal_rates(
    line_length,
):
    lengths = [line_length] * (200_000 // line_length)
    spans = carry(lengths, 128, random.Random(1))[:-1]
    sizes = np.array([span.num_tokens for span in spans])
    two_segment_share = np.mean([span.end > span.split for span in spans])
    assert np.mean(sizes == 128) == pytest.approx(0.95, abs=0.02)
    assert 5 <= sizes.min() < 30
    assert two_segment_share == pytest.approx(0.9, abs=0.03)


def test_segments_end_with_lines_where_lines_are_short():
    spans = carry([10] * 2000, 128, random.Random(3))
    splits = [span.split for span in spans if span.end > span.split]
    assert np.mean([split % 10 == 0 for split in splits]) > 0.9


def test_an_empty_document_gives_no_example():
    assert carry([], 128, random.Random(0)) == []
    assert carry([0, 0], 128, random.Random(0)) == []
    assert pack_as_the_original([0, 0], 128, seed=0) == []


def pack_as_the_original(lengths, max_seq_length, seed):
    builder = ExampleBuilder(max_seq_length, random.Random(seed))
    ids = iter(range(sum(lengths)))
    lines = [[next(ids) for _ in range(length)] for length in lengths]
    packed = [e for line in lines for e in builder.add_line(line)]
    return packed + builder.end_document()


@settings(max_examples=100, deadline=None)
@given(line_lengths, row_lengths, seeds)
def test_examples_hold_no_token_twice_and_fit(lengths, max_seq_length, seed):
    packed = pack_as_the_original(lengths, max_seq_length, seed)
    text = [i for example in packed for i in example.first + example.second]
    assert len(set(text)) == len(text) <= sum(lengths)
    for first, second in packed:
        special = 3 if second else 2
        assert len(first) + len(second) + special <= max_seq_length


class _Draws:
    """Given numbers in place of random ones, then 0.9, which changes nothing.

    Attributes:
      random: returns the next number.
    """

    def __init__(self, *numbers):
        self.random = itertools.chain(numbers, itertools.repeat(0.9)).__next__


@pytest.mark.parametrize(
    ("lengths", "draw", "split"),
    [
        ([3, 1, 6], 0.9, 4),  # 4 < 5
        ([3, 2, 5], 0.4, 5),
        ([3, 2, 5], 0.5, 3),
        ([6, 2, 2], 0.4, 6),
        ([2, 8], 0.4, 5),  # it fills the example: cut at the target
        ([2, 9], 0.4, 5),
    ],
)
def test_a_line_that_reaches_the_target_joins_half_of_the_first_segments(
    lengths, draw, split
):
    """The target is (13 - 3) // 2 = 5; a segment that has it takes no more."""
    spans = carry(lengths, 13, _Draws(0.9, 0.9, draw))
    assert spans[0] == (0, split, 10)


@pytest.mark.parametrize(
    ("lengths", "draws", "first"),
    [
        ([3, 1, 6], [0.9], [0, 1, 2, 3]),
        ([3, 2, 5], [0.4], [0, 1, 2, 3, 4]),
        ([3, 2, 5], [0.5], [0, 1, 2]),
        ([6, 2, 2], [0.4], [0, 1, 2, 3, 4, 5]),
        ([3, 2, 2], [0.9, 0.4], [0, 1, 2]),
        ([3, 2, 1], [0.9], [0, 1, 2, 5]),  # it returns, out of order
    ],
)
def test_lines_of_the_original_join_by_the_same_rule(lengths, draws, first):
    """But only while the second segment is empty is there a draw."""
    ids, builder = iter(range(10)), ExampleBuilder(13, _Draws(0.9, *draws))
    for length in lengths:
        assert not builder.add_line([next(ids) for _ in range(length)])
    second = [i for i in range(sum(lengths)) if i not in first]
    assert builder.end_document() == [Example(first, second)]


def test_original_packing_drops_tokens_that_do_not_fit():
    packed = pack_as_the_original([100], 16, seed=0)
    assert [len(e.first) + len(e.second) for e in packed] == [14]


@settings(max_examples=200, deadline=None)
@given(sizes_of_examples)
def test_each_example_is_in_one_row_that_holds_it_in_order(sizes):
    rows = fill_rows(sizes, LENGTH)
    assert sorted(i for row in rows for i in row) == list(range(len(sizes)))
    assert all(row == sorted(row) for row in rows)
    assert all(sum(sizes[i] for i in row) <= LENGTH for row in rows)
    assert rows == sorted(rows)


@settings(max_examples=200, deadline=None)
@given(sizes_of_examples)
def test_no_two_rows_would_fit_into_one(sizes):
    filled = sorted(
        sum(sizes[i] for i in row) for row in fill_rows(sizes, LENGTH)
    )
    assert len(filled) < 2 or filled[0] + filled[1] > LENGTH


def test_rows_of_random_sizes_are_more_than_99_percent_full():
    rng = random.Random(0)
    sizes = [rng.randint(3, 128) for _ in range(2000)]
    num_rows = len(fill_rows(sizes, 128))
    assert sum(sizes) / (128 * num_rows) > 0.99


def test_a_row_has_no_more_examples_than_one_byte_can_number():
    rows = fill_rows([3] * 1000, 512)
    assert max(map(len, rows)) == MAX_EXAMPLES < 512 // 3
    assert sum(map(len, rows)) == 1000
