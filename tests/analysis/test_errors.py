import dataclasses
import math

import analysis_configs
import numpy as np
import pytest
from word_scorer import WordScorer

from electra_tf.analysis import errors
from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.scorer import Scorer
from electra_tf.analysis.words import NO_ERROR_SCORE, Items
from electra_tf.util.errors import UserError

# On dev, 0.6 is the best threshold; on test, b is a false alarm.
TABLE = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.5, "e": 0.2}
DEV = "a\ti\nc\ti\nd\tc\ne\tc\n\na\ti\ne\tc\n"
TEST = "a\ti\nb\tc\ne\tc\n\nd\ti\ne\tc\ne\tc\n"


@pytest.fixture
def config(tmp_path):
    (tmp_path / "dev.tsv").write_text(DEV)
    (tmp_path / "test.tsv").write_text(TEST)
    dev = (str(tmp_path / "dev.tsv"),)
    return analysis_configs.config(
        tmp_path / "test.tsv", what="errors", dev=dev
    )


def _run(config, monkeypatch, scorer=None):
    scorer = scorer or WordScorer(TABLE)
    monkeypatch.setattr(Scorer, "from_config", lambda _: scorer)
    return errors.run(config)


def test_the_threshold_is_tuned_on_dev_and_measured_on_test(
    config, monkeypatch
):
    report = _run(config, monkeypatch)
    detectors = report.results["detectors"]
    own = detectors["discriminator"]
    assert own["threshold"] == 0.6
    values = {k: own[k].value for k in errors.FIGURES[:4]}
    assert values == pytest.approx(
        {
            "precision": 0.5,  # a, and b
            "recall": 0.5,  # a, not d
            "f_half": 0.5,
            # Of the pairs of a and d with b, e, e, e, only d, b is misordered.
            "auc": 7 / 8,
        }
    )
    sizes = {"num_texts": 2, "num_words": 6, "num_errors": 2}
    assert report.results["test"] == sizes
    chance = detectors["all words"]
    assert chance["precision"].value == pytest.approx(2 / 6)
    assert (chance["recall"].value, chance["auc"].value) == (1, 0.5)
    # Ranked by the vocabulary a, b, c, d, e: of 8 pairs a precedes none.
    unigram = detectors["unigram"]
    assert unigram["auc"].value == 1 / 8
    assert own["auc_over_unigram"].value == 6 / 8
    assert unigram["auc_over_unigram"] == (0, 0, 0)
    analysis_configs.draw(report)


def _items(seed=0, size=60, texts=9):
    rng = np.random.default_rng(seed)
    error_score = rng.integers(0, 12, size) / 12  # with ties
    is_error = rng.random(size) < 0.2 + 0.5 * error_score
    return Items(error_score, is_error, np.sort(rng.integers(0, texts, size)))


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


def test_a_word_without_tokens_is_never_flagged():
    error_score = np.array([NO_ERROR_SCORE, 0.2, 0.3])
    items = Items(error_score, np.array([True, False, False]), np.arange(3))
    assert errors.best_threshold(items) == 0.2
    assert len(errors.precision_recall(items)[0]) == 2
    nothing = items._replace(error_score=np.full(3, NO_ERROR_SCORE))
    assert errors.best_threshold(nothing) == math.inf


def test_figures_at_a_threshold_equal_their_formulas():
    items = _items(2)
    flagged = items.error_score >= 0.5
    hits = (flagged & items.is_error).sum()
    precision, recall = hits / flagged.sum(), hits / items.is_error.sum()
    expected = (precision, recall, _f_half(items, 0.5))
    counts = errors.counts_by_text(items, 0.5).sum(1)
    assert errors.detection(*counts) == pytest.approx(expected)
    assert errors.detection(0, 0, 5) == (0, 0, 0)
    assert math.isnan(errors.detection(0, 3, 0)[1])


def test_repairs_are_judged_on_wrong_words_of_one_token():
    """By words, whether wrong, corrections, repairs and rank, if judged."""
    rows = (
        ("goed", True, "went", "walked Went x y z", 1),
        ("has", True, "Have", "have x y z w", 0),
        ("a", True, "b", "the x y z w", 5),
        ("un+known", True, "k", "", None),  # of two tokens
        ("fine", False, "f", "", None),
        ("i", True, "I", "we x y z w", None),  # only its case is wrong
        ("he", True, "He she", "He she y z w", 0),  # the first is the word
        ("z", True, "s", "##s s x", 1),  # a piece inside words is none
    )
    words, is_error, corrections, repairs, ranks = zip(*rows, strict=True)
    table = {k: x.split() for k, x in zip(words, repairs, strict=True) if x}
    scorer = WordScorer({}, table, ("discriminator", "mlm"))
    text = AnnotatedText(
        path="p",
        words=words,
        is_error=is_error,
        corrections=tuple(frozenset(x.split()) for x in corrections),
    )
    scores = list(scorer.score([text.text], num_repairs=5))
    found = errors.repair_ranks([text], scores, scorer.vocabulary)
    assert found == [rank for rank in ranks if rank is not None]


def test_repairs_are_requested_only_with_mlm_scores(config, monkeypatch):
    both = ("discriminator", "mlm")
    scorer = WordScorer(TABLE, scores=both)
    report = _run(config, monkeypatch, scorer)
    assert {asked[1:] for asked in scorer.asked} == {(both, 5)}
    assert list(report.results["detectors"])[:2] == [*both]
    scorer.asked.clear()
    alone = dataclasses.replace(config, scores=both[:1])
    report = _run(alone, monkeypatch, scorer)
    assert {asked[1:] for asked in scorer.asked} == {(both[:1], 0)}
    assert report.results["repairs"] is None


@pytest.mark.parametrize(
    ("name", "text"), [("x.txt", "a b\n"), ("x.tsv", "a\tc\n")]
)
def test_texts_without_both_kinds_of_words_are_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError):
        errors.read(analysis_configs.config(tmp_path / name), "test")
