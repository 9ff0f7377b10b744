import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import xla_kernels
from electra_tf.pretrain import generators
from electra_tf.util import seeds


def _softmax_parts(size, words, width=3, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((2, size, width), (words, width), (words,))
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


def test_others_are_the_noisiest_words_but_the_truth():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(4, 5, 9)).astype(np.float32)
    uniform = rng.random((4, 5, 9)).astype(np.float32)
    truth = rng.integers(0, 9, (4, 5)).astype(np.int32)
    found = generators.others(logits, truth, uniform, 3).numpy()
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
    first = generators.others(logits, truth, uniform, 2).numpy()[0, :, 0]
    p = np.exp([0.0, 1.0, 2.0])
    shares = np.bincount(first, minlength=4) / 30_000
    np.testing.assert_allclose(shares, [*(p / p.sum()), 0], atol=0.01)


@pytest.mark.parametrize("max_logits", [1, 70, 2**25])
def test_blocks_find_what_the_whole_would(max_logits, monkeypatch):
    monkeypatch.setattr(generators, "_MAX_LOGITS", max_logits)
    x, table, bias = _softmax_parts(7, words=30)
    logits = x @ table.T + bias
    taken = np.argsort(-logits, -1)[..., 1]
    scores = generators.Scores(x, table, bias)
    best = generators.everywhere(scores, tf.constant(taken, tf.int32), 3)
    np.testing.assert_array_equal(best, np.argsort(-logits, -1)[..., [0, 2, 3]])
    keys = seeds.random_bits(tf.constant([3, 4], tf.uint32), (7,))
    uniform = seeds.uniform(tf.reshape(keys, [-1]), (30,))
    uniform = tf.reshape(uniform, [2, 7, 30])
    np.testing.assert_array_equal(
        generators.everywhere(scores, tf.constant(taken, tf.int32), 3, keys),
        generators.others(logits, taken, uniform, 3),
    )


def test_large_and_small_vocabularies_have_the_same_noise(monkeypatch):
    keys = tf.constant([3, 4, 5], tf.uint32)
    plain = generators._noise(keys, 40)
    monkeypatch.setattr(xla_kernels, "MIN_SIZE", 8)
    np.testing.assert_allclose(generators._noise(keys, 40), plain, rtol=1e-5)
    uniform = seeds.uniform(keys, (40,)).numpy().astype(np.float64)
    np.testing.assert_allclose(plain, -np.log(-np.log(uniform)), rtol=1e-4)


def test_without_leaves_one_word_fewer():
    words = np.array([[4, 7, 2], [4, 7, 2], [4, 7, 2]], np.int32)
    kept = generators.without(words, np.array([7, 2, 9], np.int32)).numpy()
    np.testing.assert_array_equal(kept, [[1, 0, 1], [1, 1, 0], [1, 1, 0]])
