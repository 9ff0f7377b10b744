"""Examples share rows so that nothing is lost and little room is left."""

import doctest
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electra_tf.data import shared_rows
from electra_tf.data.shared_rows import MAX_EXAMPLES, share

LENGTH = 32


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(3, LENGTH), max_size=60))
def test_each_example_is_in_one_row_that_holds_it_in_order(sizes):
    rows = share(sizes, LENGTH)
    assert sorted(i for row in rows for i in row) == list(range(len(sizes)))
    assert all(row == sorted(row) for row in rows)
    assert all(sum(sizes[i] for i in row) <= LENGTH for row in rows)
    assert rows == sorted(rows)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(3, LENGTH), max_size=60))
def test_no_two_rows_would_fit_into_one(sizes):
    filled = sorted(sum(sizes[i] for i in row) for row in share(sizes, LENGTH))
    assert len(filled) < 2 or filled[0] + filled[1] > LENGTH


def test_random_sizes_leave_next_to_no_room():
    rng = random.Random(0)
    sizes = [rng.randint(3, 128) for _ in range(2000)]
    num_rows = len(share(sizes, 128))
    assert sum(sizes) / (128 * num_rows) > 0.99


def test_a_row_has_no_more_examples_than_one_byte_can_number():
    rows = share([3] * 1000, 512)
    assert max(map(len, rows)) == MAX_EXAMPLES < 512 // 3
    assert sum(map(len, rows)) == 1000


def test_a_full_row_is_left_alone():
    assert share([8, 8], 8) == [[0], [1]]


@pytest.mark.parametrize("sizes", [[], [5]])
def test_few_examples_are_few_rows(sizes):
    assert share(sizes, 8) == [[i] for i in range(len(sizes))]


def test_the_docstring_example_is_true():
    assert doctest.testmod(shared_rows).attempted
    assert not doctest.testmod(shared_rows).failed
