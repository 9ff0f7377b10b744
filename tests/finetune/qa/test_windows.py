import numpy as np
import pytest

from electra_tf.finetune.qa import windows


def test_windows_begin_a_stride_apart_and_end_with_the_context():
    assert windows.get_windows(10, 4, 3) == [(0, 4), (3, 4), (6, 4)]
    assert windows.get_windows(11, 4, 3)[-1] == (9, 2)
    assert windows.get_windows(4, 4, 1) == [(0, 4)]
    assert windows.get_windows(0, 4, 3) == [(0, 0)]
    # A stride that is too long leaves out no token.
    assert windows.get_windows(8, 3, 100) == [(0, 3), (3, 3), (6, 2)]


def _most_context(spans, place):
    """Returns the best window, as BERT's run_squad.py has it, in words."""
    scores = {}
    for number, (start, length) in enumerate(spans):
        end = start + length - 1
        if start <= place <= end:
            sides = min(place - start, end - place)
            scores[number] = sides + 0.01 * length
    return max(scores, key=lambda number: (scores[number], -number))


@pytest.mark.parametrize("room", [3, 10, 32])
def test_a_token_belongs_to_the_window_that_shows_most_around_it(room):
    random = np.random.default_rng(room)
    for _ in range(20):
        count, stride = random.integers(1, 120), random.integers(1, room + 1)
        spans = windows.get_windows(count, room, stride)
        best = windows.max_context(spans, count)
        assert best.tolist() == [_most_context(spans, i) for i in range(count)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([5], (2, 2)),
        ([6, 7], (3, 4)),
        ([9], (1, 4)),
        ([], (1, 4)),
        ([8], (1, 1)),
    ],
)
def test_an_answer_is_found_within_its_words(answer, expected):
    tokens = np.array([9, 8, 5, 6, 7, 9, 8])
    assert windows.find_tokens(tokens, np.array(answer), 1, 5) == expected
