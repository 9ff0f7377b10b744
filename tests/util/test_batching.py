import itertools

import pytest

from electra_tf.util.batching import batches

WORDS = ("a", "bcd", "", "ef")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [["a", "bcd", "", "ef"]]),
        ({"max_items": 3}, [["a", "bcd", ""], ["ef"]]),
        ({"max_items": 2}, [["a", "bcd"], ["", "ef"]]),
        ({"size": len, "enough": 4}, [["a", "bcd"], ["", "ef"]]),
        ({"max_items": 1, "size": len, "enough": 4}, [[x] for x in WORDS]),
        (
            {"max_items": 3, "size": len, "enough": 4},
            [["a", "bcd"], ["", "ef"]],
        ),
    ],
)
def test_a_batch_ends_with_enough_items_or_a_large_enough_sum(
    arguments, expected
):
    assert [*batches(WORDS, **arguments)] == expected


def test_no_items_make_no_batch():
    assert not [*batches([], 3)]


def test_no_item_is_taken_before_its_batch_is_wanted():
    numbers = itertools.count()
    first = next(batches(numbers, 3))
    assert first == [0, 1, 2] and next(numbers) == 3
