"""Error scores of words, and metrics of detecting errors."""

import itertools
import math

import numpy as np
import pytest
from word_scorer import WordScorer

from electra_tf.analysis import words
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.scores import TextScores, TokenScore
from electra_tf.analysis.words import NO_ERROR_SCORE, Items


def _items(seed=0, size=60, texts=9):
    rng = np.random.default_rng(seed)
    error_score = rng.integers(0, 12, size) / 12  # with ties
    is_error = rng.random(size) < 0.2 + 0.5 * error_score
    return Items(error_score, is_error, np.sort(rng.integers(0, texts, size)))


def _auc(error_score, is_error):
    """Averages over all pairs of a wrong and a correct item."""
    pairs = itertools.product(error_score[is_error], error_score[~is_error])
    return np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])


def _f_half(items, threshold):
    flagged = items.error_score >= threshold
    hits = (flagged & items.is_error).sum()
    p, r = hits / max(1, flagged.sum()), hits / items.is_error.sum()
    return 1.25 * p * r / (0.25 * p + r) if p + r else 0.0


def test_a_word_has_the_error_score_of_its_worst_token():
    texts = [
        AnnotatedText(
            path="p",
            words=("a", "un+likely", "\u200b", "b"),
            is_error=(False, True, False, True),
        ),
        AnnotatedText(path="p", words=("c",), is_error=(True,)),
    ]
    scorer = WordScorer({"un": 0.7, "likely": 0.2, "c": 0.4})
    scores = list(scorer.score(["a un+likely ~ b", "c"]))
    assert words.word_of_tokens(texts[0], scores[0]) == [0, 1, 1, 3]
    items = words.items_of_words(
        texts, scores, words.error_score("discriminator")
    )
    expected = [0.1, 0.7, NO_ERROR_SCORE, 0.1, 0.4]
    np.testing.assert_allclose(items.error_score, expected)
    assert items.is_error.tolist() == [False, True, False, True, True]
    assert items.text.tolist() == [0, 0, 0, 0, 1]


def test_a_token_with_the_space_before_it_is_of_the_word_it_ends_in():
    text = AnnotatedText(path="p", words=("ab", "cd", "ef"))
    spans = ((0, 2), (2, 5), (5, 6))
    tokens = tuple(TokenScore("x", *s, *s, 0.1, {}) for s in spans)
    scores = TextScores(text.text, tokens)
    assert words.word_of_tokens(text, scores) == [0, 1, 2]


def test_auc_of_resampled_texts_is_that_of_their_items_together():
    items = _items(1)
    for sample in (np.arange(9), np.array([3, 3, 0, 5, 8, 8, 8])):
        drawn = np.concatenate(
            [np.flatnonzero(items.text == t) for t in sample]
        )
        expected = _auc(items.error_score[drawn], items.is_error[drawn])
        assert words.auc(items, sample) == pytest.approx(expected)
    one_kind = items._replace(is_error=np.ones(60, bool))
    assert math.isnan(words.auc(one_kind, np.arange(3)))


def test_the_best_threshold_has_the_greatest_f_half_of_all():
    for seed in range(5):
        items = _items(seed)
        found = _f_half(items, words.best_threshold(items))
        every = [_f_half(items, t) for t in np.unique(items.error_score)]
        assert found == pytest.approx(max(every))


def test_an_item_without_an_error_score_is_never_flagged():
    error_score = np.array([NO_ERROR_SCORE, 0.2, 0.3])
    items = Items(error_score, np.array([True, False, False]), np.arange(3))
    assert words.best_threshold(items) == 0.2
    assert len(words.precision_recall(items)[0]) == 2
    nothing = items._replace(error_score=np.full(3, NO_ERROR_SCORE))
    assert words.best_threshold(nothing) == math.inf


def test_figures_at_a_threshold_equal_their_formulas():
    items, texts = _items(2), np.arange(9)
    flagged = items.error_score >= 0.5
    hits = (flagged & items.is_error).sum()
    precision, recall = hits / flagged.sum(), hits / items.is_error.sum()
    expected = (precision, recall, _f_half(items, 0.5))
    assert words.detection(items, 0.5, texts) == pytest.approx(expected)
    assert words.detection(items, 2.0, texts) == (0, 0, 0)
    correct = items._replace(is_error=np.zeros(60, bool))
    assert math.isnan(words.detection(correct, 0.5, texts)[1])
