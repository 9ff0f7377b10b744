import numpy as np
import pytest

from electra_tf.model.text_windows import windows


def _windows(num_tokens, size):
    """Yields the windows of each text."""
    found = np.stack(windows(np.array(num_tokens, np.int32), size), 1)
    for text in range(len(num_tokens)):
        yield found[found[:, 0] == text, 1:].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11])
def test_a_token_is_scored_where_its_shorter_side_is_longest(size):
    counts = (*range(1, 30), 101)
    for count, found in zip(counts, _windows(counts, size), strict=True):
        _check(count, size, found)


def _check(num_tokens, size, found):
    assert all(0 < end - start <= size for start, end, *_ in found)
    owners = [i for i, (*_, a, b) in enumerate(found) for _ in range(a, b)]
    assert len(owners) == num_tokens
    for token, owner in enumerate(owners):
        sides = [
            min(token - start, end - 1 - token) if start <= token < end else -1
            for start, end, *_ in found
        ]
        assert sides[owner] == max(sides) >= 0
        assert sides.index(max(sides)) == owner


def test_a_text_that_fits_has_one_window_and_an_empty_one_none():
    assert [*_windows([0, 5, 0], 5)] == [[], [[0, 5, 0, 5]], []]
    assert not [*windows(np.zeros(0, np.int32), 5).texts]
