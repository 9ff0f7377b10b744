"""Error scores of words, and labels of errors."""

import itertools
import math

import numpy as np
import pytest
from word_scorer import WordScorer

from electra_tf.analysis import words
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.scores import TextScores, TokenScore
from electra_tf.analysis.words import NO_ERROR_SCORE, Items


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
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 12, 60) / 12  # with ties
    is_error = rng.random(60) < 0.2 + 0.5 * scores
    items = Items(scores, is_error, np.sort(rng.integers(0, 9, 60)))
    for sample in (np.arange(9), np.array([3, 3, 0, 5, 8, 8, 8])):
        drawn = np.concatenate(
            [np.flatnonzero(items.text == t) for t in sample]
        )
        wrong, right = (scores[drawn[is_error[drawn] == x]] for x in (1, 0))
        pairs = itertools.product(wrong, right)
        expected = np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])
        assert words.auc(items, sample) == pytest.approx(expected)
    one_kind = items._replace(is_error=np.ones(60, bool))
    assert math.isnan(words.auc(one_kind, np.arange(3)))
