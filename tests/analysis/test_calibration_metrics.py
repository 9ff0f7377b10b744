import numpy as np
import pytest

from electra_tf.analysis import calibration_metrics
from electra_tf.analysis.calibration_metrics import Bins
from electra_tf.analysis.scoring.scores import Items


def _items(seed=0, size=400, sharpness=2.0):
    """Returns items whose logits are `sharpness` times the true ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-1, 2, size)
    p = 1 / (1 + np.exp(-logits / sharpness))
    text = np.sort(rng.integers(0, 30, size))
    text[-1] = 29
    return Items(logits, rng.random(size) < p, text)


def _probability(items):
    return 1 / (1 + np.exp(-items.error_score))


def _bins(items, chosen=True):
    by_text = calibration_metrics.bins_by_text(
        items, _probability(items), chosen
    )
    return Bins(*by_text.sum(1))


def _by_hand(p, y):
    """Yields the count, mean probability and error rate of each bin."""
    edges = np.linspace(0, 1, 16)
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        here = (p >= low) & (p < high)
        if here.any():
            yield here.sum(), p[here].mean(), y[here].mean()


@pytest.mark.parametrize("flagged_only", [False, True])
def test_calibration_error_equals_the_formula(flagged_only):
    items = _items()
    p = _probability(items)
    chosen = p >= 0.5 if flagged_only else np.ones(len(p), bool)
    expected = sum(
        n * abs(mean - share) / chosen.sum()
        for n, mean, share in _by_hand(p[chosen], items.is_error[chosen])
    )
    found = calibration_metrics.calibration_error(_bins(items, chosen))
    assert found == pytest.approx(expected)


def test_bins_of_texts_add_up_to_those_of_a_sample():
    items = _items(1)
    by_text = calibration_metrics.bins_by_text(items, _probability(items))
    sample = np.array([4, 4, 17])
    drawn = np.concatenate([np.flatnonzero(items.text == t) for t in sample])
    again = Items(*(values[drawn] for values in items))
    np.testing.assert_allclose(by_text[:, sample].sum(1), _bins(again))


def test_the_last_bin_holds_certainty():
    assert calibration_metrics.bin_of(
        np.array([0.0, 0.0667, 1.0])
    ).tolist() == [
        0,
        1,
        14,
    ]


def test_parts_of_the_brier_score_equal_their_formulas():
    items = _items(2)
    p, y = _probability(items), items.is_error
    found = calibration_metrics.brier(_bins(items))
    assert found.score == pytest.approx(np.mean((p - y) ** 2))
    rows = list(_by_hand(p, y))
    n, mean = len(p), y.mean()
    reliability_part = sum(k * (a - b) ** 2 for k, a, b in rows) / n
    resolution = sum(k * (b - mean) ** 2 for k, _, b in rows) / n
    assert found.reliability == pytest.approx(reliability_part)
    assert found.resolution == pytest.approx(resolution)
    assert found.uncertainty == pytest.approx(mean * (1 - mean))
    # The rest is variance within bins, less twice the covariance.
    rest = 0.0
    for low in np.arange(15) / 15:
        here = (p >= low) & (p < low + 1 / 15)
        if here.any():
            dp, dy = p[here] - p[here].mean(), y[here] - y[here].mean()
            rest += np.sum(dp**2 - 2 * dp * dy) / n
    assert found.remainder == pytest.approx(rest, abs=1e-9)


def test_probabilities_that_are_equal_in_a_bin_leave_no_remainder():
    p = np.array([0.1, 0.1, 0.1, 0.7, 0.7])
    y = np.array([0, 0, 1, 1, 0], bool)
    items = Items(calibration_metrics.logit(p), y, np.zeros(5, int))
    assert calibration_metrics.brier(_bins(items)).remainder == pytest.approx(0)


def test_the_temperature_is_the_best_on_a_grid():
    items = _items(3)
    found = calibration_metrics.fit_temperature(items)
    p = _probability(items)

    def nats(temperature):
        q = 1 / (1 + np.exp(-items.error_score / temperature))
        return -np.mean(np.log(np.where(items.is_error, q, 1 - q)))

    assert calibration_metrics.negative_log_likelihood(items) == pytest.approx(
        nats(1)
    )
    assert nats(found) <= min(map(nats, np.geomspace(0.1, 10, 200))) + 1e-9
    assert nats(found) < -np.mean(np.log(np.where(items.is_error, p, 1 - p)))


def test_the_temperature_recovers_the_factor_of_the_logits():
    found = calibration_metrics.fit_temperature(_items(4, 40000, sharpness=1.7))
    assert found == pytest.approx(1.7, rel=0.05)


def test_logits_of_certainties_are_finite():
    found = calibration_metrics.logit(np.array([0.0, 0.25, 1.0]))
    assert np.isfinite(found).all()
    assert found[1] == pytest.approx(np.log(1 / 3))
    np.testing.assert_allclose(
        1 / (1 + np.exp(-found)), [0, 0.25, 1], atol=1e-11
    )


def test_no_items_have_no_calibration_error():
    empty = Bins(*np.zeros((4, 15)))
    assert np.isnan(calibration_metrics.calibration_error(empty))


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(0.01, True), (0.02, False), (1.0, False), (50.0, False), (100.0, True)],
)
def test_both_ends_of_the_range_are_extreme(temperature, expected):
    assert calibration_metrics.is_extreme(temperature) == expected


def test_a_temperature_at_the_end_of_the_range_is_warned_of(capsys):
    rng = np.random.default_rng(0)
    uninformative = Items(
        100 * rng.normal(size=200), rng.random(200) < 0.5, np.arange(200)
    )
    assert calibration_metrics.fit_temperature(uninformative) > 99
    assert "the logits are uninformative" in capsys.readouterr().err
