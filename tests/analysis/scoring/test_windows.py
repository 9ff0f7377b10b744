import pytest

from electra_tf.analysis.scoring.windows import windows


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11])
def test_a_token_is_scored_where_its_shorter_side_is_longest(size):
    for num_tokens in (*range(1, 30), 101):
        _check(num_tokens, size)


def _check(num_tokens, size):
    found = list(windows(num_tokens, size))
    assert all(0 < w.end - w.start <= size for w in found)
    owners = [i for i, w in enumerate(found) for _ in range(w.first, w.stop)]
    assert len(owners) == num_tokens
    for token, owner in enumerate(owners):
        sides = [
            min(token - w.start, w.end - 1 - token)
            if w.start <= token < w.end
            else -1
            for w in found
        ]
        assert sides[owner] == max(sides) >= 0
        assert sides.index(max(sides)) == owner


def test_a_text_that_fits_has_one_window_and_an_empty_one_none():
    assert list(windows(5, 5)) == [(0, 5, 0, 5)]
    assert list(windows(0, 5)) == []
