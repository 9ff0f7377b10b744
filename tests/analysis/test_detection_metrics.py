import itertools
import math

import numpy as np
import pytest
from analysis_configs import config

from electra_tf.analysis import detection_metrics
from electra_tf.analysis.detection_metrics import ResampledAuc
from electra_tf.analysis.scoring.scores import NO_ERROR_SCORE, Items


def _items(seed=0, size=60, texts=9):
    rng = np.random.default_rng(seed)
    error_score = rng.integers(0, 12, size) / 12  # with ties
    is_error = rng.random(size) < 0.2 + 0.5 * error_score
    return Items(error_score, is_error, np.sort(rng.integers(0, texts, size)))


def _auc(error_score, is_error):
    """Averages over all pairs of a wrong and a correct item."""
    wrong, right = error_score[is_error], error_score[~is_error]
    points = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, b in itertools.product(wrong, right)
    ]
    return np.mean(points)


def _f_half(items, threshold):
    flagged = items.error_score >= threshold
    hits = (flagged & items.is_error).sum()
    p, r = hits / max(1, flagged.sum()), hits / items.is_error.sum()
    return 1.25 * p * r / (0.25 * p + r) if p + r else 0.0


def test_auc_counts_pairs_with_ties_as_half():
    items = _items()
    auc = ResampledAuc(items)(np.arange(items.num_texts))
    assert auc == pytest.approx(_auc(items.error_score, items.is_error))


def test_auc_of_resampled_texts_is_that_of_their_items_together():
    items = _items(1)
    sample = np.array([3, 3, 0, 5, 8, 8, 8])
    drawn = np.concatenate([np.flatnonzero(items.text == t) for t in sample])
    expected = _auc(items.error_score[drawn], items.is_error[drawn])
    assert ResampledAuc(items)(sample) == pytest.approx(expected)


def test_auc_of_only_one_class_is_nan():
    items = _items()._replace(is_error=np.ones(60, bool))
    assert np.isnan(ResampledAuc(items)(np.arange(3)))
    nothing = Items(np.zeros(0), np.zeros(0, bool), np.zeros(0, int))
    assert np.isnan(ResampledAuc(nothing)(np.zeros(0, int)))


def test_the_best_threshold_has_the_greatest_f_half_of_all():
    for seed in range(5):
        items = _items(seed)
        found = _f_half(items, detection_metrics.best_threshold(items))
        every = [_f_half(items, t) for t in np.unique(items.error_score)]
        assert found == pytest.approx(max(every))


def test_an_item_without_an_error_score_is_never_flagged():
    error_score = np.array([NO_ERROR_SCORE, 0.2, 0.3])
    items = Items(error_score, np.array([True, False, False]), np.arange(3))
    assert detection_metrics.best_threshold(items) == 0.2
    assert len(detection_metrics.curve(items)[0]) == 2
    nothing = items._replace(error_score=np.full(3, NO_ERROR_SCORE))
    assert detection_metrics.best_threshold(nothing) == math.inf


def test_figures_at_a_threshold_equal_their_formulas():
    items, threshold = _items(2), 0.5
    found = detection_metrics.measure(items, threshold, config())
    flagged = items.error_score >= threshold
    hits = (flagged & items.is_error).sum()
    assert found.precision.value == pytest.approx(hits / flagged.sum())
    assert found.recall.value == pytest.approx(hits / items.is_error.sum())
    assert found.f_half.value == pytest.approx(_f_half(items, threshold))
    assert found.auc.value == pytest.approx(
        _auc(items.error_score, items.is_error)
    )
    for figure in found[1:]:
        assert figure.low < figure.value < figure.high


def test_intervals_are_of_texts_and_not_of_items():
    """Ten copies of each item, in its text, leave the intervals as they are."""
    items = _items(3, size=40, texts=40)
    copied = Items(*(np.repeat(values, 10) for values in items))
    one, many = (
        detection_metrics.measure(x, 0.5, config(num_resamples=300))
        for x in (items, copied)
    )
    np.testing.assert_allclose(one[1:], many[1:])


def test_a_detector_that_flags_nothing_has_zero_precision():
    items = _items()
    found = detection_metrics.measure(items, 2.0, config())
    assert found.precision == found.recall == found.f_half == (0, 0, 0)


def test_samples_of_texts_without_errors_have_no_recall():
    items = Items(np.ones(4), np.arange(4) == 0, np.arange(4) // 2)
    found = detection_metrics.measure(items, 0.5, config(num_resamples=100))
    assert found.recall == found.recall._replace(value=1, low=1, high=1)
    assert found.precision.low == 0
