import numpy as np

from electra_tf.finetune.tagging.tagging_rows import get_windows


def test_windows_score_every_word_once_and_fit():
    random = np.random.default_rng(2)
    for room in (3, 8, 21):
        for _ in range(100):
            count = random.integers(1, 40)
            sizes = random.integers(1, room + 1, count).tolist()
            windows = get_windows(sizes, room)
            scored = []
            for first, end, first_scored, end_scored in windows:
                assert sum(sizes[first:end]) <= room
                assert first <= first_scored <= end_scored <= end
                scored += range(first_scored, end_scored)
            assert scored == list(range(count))


def test_words_are_scored_where_there_is_context():
    windows = get_windows([1] * 100, 40)
    assert windows == [(0, 40, 0, 35), (30, 70, 35, 65), (60, 100, 65, 100)]
    assert get_windows([1] * 40, 40) == [(0, 40, 0, 40)]
