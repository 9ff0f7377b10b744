import numpy as np
import pytest
from analysis_configs import config
from word_scorer import WordScorer

from electra_tf.analysis.examples.annotated_text import AnnotatedText
from electra_tf.analysis.scoring import word_scores
from electra_tf.analysis.scoring.scores import TextScores, TokenScore
from electra_tf.util.errors import UserError


def _text(words, **labels):
    return AnnotatedText(path="p", words=tuple(words.split()), **labels)


def _token(start, end, p):
    return TokenScore("x", start, end, start, end, p, {"mlm": -p})


def test_a_word_has_the_error_score_of_its_worst_token():
    text = _text("a un+likely b", is_error=(False, True, False))
    scorer = WordScorer({"un": 0.7, "likely": 0.2})
    (scores,) = scorer.score([text.text])
    error_score = word_scores.error_score("discriminator")
    found = word_scores.error_scores_of_words(text, scores, error_score)
    np.testing.assert_allclose(found, [0.1, 0.7, 0.1])
    assert word_scores.word_of_tokens(text, scores) == [0, 1, 1, 2]


def test_a_token_with_the_space_before_it_is_of_the_word_it_ends_in():
    text = _text("ab cd ef")
    tokens = [_token(0, 2, 0.1), _token(2, 5, 0.2), _token(5, 6, 0.3)]
    scores = TextScores(text.text, tuple(tokens))
    assert word_scores.word_of_tokens(text, scores) == [0, 1, 2]


def test_a_word_without_tokens_has_the_least_error_score():
    text = _text("ab \u200b cd")
    tokens = (_token(0, 2, 0.5), _token(5, 7, 0.0))
    found = word_scores.error_scores_of_words(
        text, TextScores(text.text, tokens), word_scores.error_score("mlm")
    )
    assert found[1] < found[2] == 0 < found[0] == 0.5
    assert np.isfinite(found).all()


def test_items_join_the_words_of_all_texts():
    texts = [_text("a b", is_error=(True, False)), _text("c", is_error=(True,))]
    scorer = WordScorer({"a": 0.9, "c": 0.4})
    scores = scorer.score([text.text for text in texts])
    error_score = word_scores.error_score("discriminator")
    items = word_scores.items_of_words(texts, scores, error_score)
    np.testing.assert_allclose(items.error_score, [0.9, 0.1, 0.4])
    assert items.is_error.tolist() == [True, False, True]
    assert items.text.tolist() == [0, 0, 1]


def test_a_model_without_p_replaced_is_refused():
    scorer = WordScorer({}, scores=("electric", "mlm"))
    with pytest.raises(UserError, match="whose scores are electric, mlm"):
        word_scores.require_discriminator(config(), scorer)
