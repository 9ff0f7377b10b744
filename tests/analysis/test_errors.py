import itertools
import math

import numpy as np
import pytest
from tiny_analysis import WordScorer, config, draw

from electra_tf.analysis import errors
from electra_tf.analysis import scores as word_scores
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.scorer import Scorer
from electra_tf.analysis.scores import NO_ERROR_SCORE, Items

# On dev, 0.6 is the best threshold; on test, b is a false alarm.
TABLE = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.5, "e": 0.2}
DEV = "a\ti\nc\ti\nd\tc\ne\tc\n\na\ti\ne\tc\n"
TEST = "a\ti\nb\tc\ne\tc\n\nd\ti\ne\tc\ne\tc\n"


def test_the_threshold_is_tuned_on_dev_and_measured_on_test(
    tmp_path, monkeypatch
):
    paths = [tmp_path / "dev.tsv", tmp_path / "test.tsv"]
    for path, text in zip(paths, (DEV, TEST), strict=True):
        path.write_text(text)
    monkeypatch.setattr(Scorer, "from_config", lambda _: WordScorer(TABLE))
    report = errors.run(config(paths[1], what="errors", dev=(str(paths[0]),)))
    sizes = {"num_texts": 2, "num_words": 6, "num_errors": 2}
    assert report.results["test"] == sizes
    detectors = report.results["detectors"]
    assert detectors["discriminator"]["threshold"] == 0.6
    values = {
        name: [x[figure].value for figure in errors.FIGURES]
        for name, x in detectors.items()
    }
    # Precision: a, and b; recall: a, not d. Of the pairs of a and d with b, e,
    # e, e, only d and b are misordered.
    assert values["discriminator"] == [0.5, 0.5, pytest.approx(0.5), 7 / 8]
    chance = [2 / 6, 1, 1.25 * 2 / (0.25 * 2 + 6), 0.5]
    assert values["all words"] == pytest.approx(chance)
    # By the rank in the vocabulary, a comes before b and before e.
    assert values["unigram"][-1] == 1 / 8
    draw(report)


def _items(seed):
    rng = np.random.default_rng(seed)
    error_score = rng.integers(0, 12, 60) / 12  # with ties
    is_error = rng.random(60) < 0.2 + 0.5 * error_score
    return Items(error_score, is_error, np.sort(rng.integers(0, 9, 60)))


def _f_half(items, threshold):
    flagged = items.error_score >= threshold
    hits = (flagged & items.is_error).sum()
    p, r = hits / max(1, flagged.sum()), hits / items.is_error.sum()
    return 1.25 * p * r / (0.25 * p + r) if p + r else 0.0


def test_the_best_threshold_has_the_greatest_f_half_of_all():
    for seed in range(5):
        items = _items(seed)
        found = _f_half(items, errors.best_threshold(items))
        every = [_f_half(items, t) for t in np.unique(items.error_score)]
        assert found == pytest.approx(max(every))


def test_a_word_has_the_error_score_of_its_worst_token():
    texts = [
        AnnotatedText("p", ("a", "un+likely", "\u200b", "b"), (0, 1, 0, 1)),
        AnnotatedText("p", ("c",), (True,)),
    ]
    scorer = WordScorer({"un": 0.7, "likely": 0.2, "c": 0.4})
    scores = list(scorer.score(["a un+likely ~ b", "c"]))
    assert word_scores.word_of_tokens(texts[0], scores[0]) == [0, 1, 1, 3]
    items = word_scores.items_of_words(
        texts, scores, word_scores.error_score("discriminator")
    )
    expected = [0.1, 0.7, NO_ERROR_SCORE, 0.1, 0.4]
    np.testing.assert_allclose(items.error_score, expected)
    assert items.is_error.tolist() == [False, True, False, True, True]
    assert items.text.tolist() == [0, 0, 0, 0, 1]


def test_auc_of_resampled_texts_is_that_of_their_items_together():
    items = _items(1)
    scores, is_error = items[:2]
    for sample in (np.arange(9), np.array([3, 3, 0, 5, 8, 8, 8])):
        drawn = np.concatenate(
            [np.flatnonzero(items.text == t) for t in sample]
        )
        wrong, right = (scores[drawn[is_error[drawn] == x]] for x in (1, 0))
        pairs = itertools.product(wrong, right)
        expected = np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])
        assert word_scores.auc(items, sample) == pytest.approx(expected)
    one_kind = items._replace(is_error=np.ones(60, bool))
    assert math.isnan(word_scores.auc(one_kind, np.arange(9)))
