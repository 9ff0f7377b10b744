import numpy as np
import pytest

from electra_tf.model import candidates


def _softmax_parts(size, words, width=3, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((2, size, width), (words, width), (words,))
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


def test_others_are_the_noisiest_words_but_the_truth():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(4, 5, 9)).astype(np.float32)
    uniform = rng.random((4, 5, 9)).astype(np.float32)
    truth = rng.integers(0, 9, (4, 5)).astype(np.int32)
    found = candidates.others(logits, truth, uniform, 3).numpy()
    noisy = logits - np.log(-np.log(uniform.astype(np.float64)))
    was_drawn = 0
    for row, slot in np.ndindex(4, 5):
        order = np.argsort(-noisy[row, slot])
        was_drawn += truth[row, slot] in order[:3]
        order = order[order != truth[row, slot]]
        np.testing.assert_array_equal(found[row, slot], order[:3])
    assert 0 < was_drawn < 20


def test_others_follow_the_softmax_without_the_truth():
    logits = np.tile(np.float32([0.0, 1.0, 2.0, 3.0]), (1, 30_000, 1))
    truth = np.full((1, 30_000), 3, np.int32)
    uniform = np.random.default_rng(0).random(logits.shape).astype(np.float32)
    first = candidates.others(logits, truth, uniform, 2).numpy()[0, :, 0]
    p = np.exp([0.0, 1.0, 2.0])
    shares = np.bincount(first, minlength=4) / 30_000
    np.testing.assert_allclose(shares, [*(p / p.sum()), 0], atol=0.01)


@pytest.mark.parametrize("max_logits", [1, 70, 2**25])
def test_blocks_sample_what_the_whole_would(max_logits, monkeypatch):
    monkeypatch.setattr(candidates, "_MAX_LOGITS", max_logits)
    x, table, bias = _softmax_parts(7, words=30)
    uniform = np.random.default_rng(1).random((2, 7, 4)).astype(np.float32)
    found = candidates.everywhere(x, table, bias, uniform)
    p = np.exp((x @ table.T + bias).astype(np.float64))
    ends = np.cumsum(p / p.sum(-1, keepdims=True), -1)  # [2, 7, 30]
    expected = (ends[..., None, :] <= uniform[..., None]).sum(-1)
    np.testing.assert_array_equal(found, expected)
    best = candidates.likeliest(x, table, bias, 3)
    np.testing.assert_array_equal(best, np.argsort(-p, -1)[..., :3])
