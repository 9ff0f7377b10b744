import math

import numpy as np
import pytest
from analysis_configs import config

from electra_tf.analysis.reporting import statistics
from electra_tf.analysis.reporting.statistics import Interval


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (7.5, 9), (5, 5)])
def test_wilson_bounds_lie_1_96_standard_errors_from_the_share(
    successes, trials
):
    """Its definition: |share - p| = z sqrt(p (1 - p) / n) at both ends."""
    found = statistics.wilson(successes, trials)
    assert found.value == successes / trials
    for end in found[1:]:
        error = math.sqrt(max(end * (1 - end), 0) / trials)
        distance = abs(found.value - end)
        assert distance == pytest.approx(1.959964 * error, abs=1e-9)
    assert -1e-12 <= found.low < found.high <= 1 + 1e-12


def test_wilson_bounds_hold_the_share_and_stay_shares():
    for trials in range(1, 200):
        for successes in (0, 1, trials - 1, trials):
            found = statistics.wilson(successes, trials)
            assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_bootstrap_of_a_mean_is_near_the_normal_interval():
    values = np.random.default_rng(3).normal(size=400)
    found = statistics.bootstrap(
        lambda i: values[i].mean(), 400, config(num_resamples=1000, seed=1)
    )
    half = 1.96 * values.std() / math.sqrt(400)
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.2 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.2 * half)


def test_bootstraps_of_one_seed_are_equal_and_paired():
    values = np.arange(50.0)
    intervals = [
        statistics.bootstrap(lambda i: values[i].mean(), 50, config(seed=seed))
        for seed in (1, 1, 2)
    ]
    assert intervals[0] == intervals[1] != intervals[2]
    shifted = statistics.bootstrap(
        lambda i: values[i].mean() + 1, 50, config(seed=1)
    )
    np.testing.assert_allclose(np.subtract(shifted, intervals[0]), 1)


def test_the_mean_of_shares_is_near_the_normal_interval():
    counts = ((400, 1000), (300, 500), (900, 2000))
    shares = [statistics.wilson(*pair) for pair in counts]
    found = statistics.mean(shares)
    values = [wins / trials for wins, trials in counts]
    variances = [wins * (trials - wins) / trials**3 for wins, trials in counts]
    half = 1.96 * math.sqrt(sum(variances)) / 3
    assert found.value == pytest.approx(sum(values) / 3)
    assert found.high - found.value == pytest.approx(half, rel=0.03)
    assert found.value - found.low == pytest.approx(half, rel=0.03)


def test_the_mean_of_one_share_is_itself_and_of_certain_ones_has_width():
    one = statistics.wilson(3, 7)
    assert statistics.mean([one]) == pytest.approx(one)
    found = statistics.mean([statistics.wilson(9, 9), statistics.wilson(0, 9)])
    assert found.low < 0.5 == found.value < found.high


def test_an_interval_is_written_with_its_ends():
    assert statistics.shown(Interval(0.5, 0.25, 1), 2) == "0.50 [0.25, 1.00]"
    assert statistics.shown(statistics.wilson(0, 0)) == "none"


def test_samples_without_a_figure_do_not_count():
    """Half of the samples of two items lack one of them."""
    found = statistics.bootstrap(
        lambda i: 7.0 if len({*i}) == 2 else math.nan, 2, config()
    )
    assert found == (7.0, 7.0, 7.0)
    found = statistics.bootstrap(
        lambda i: 7.0 if len({*i}) == 20 else math.nan, 20, config()
    )
    assert found.value == 7.0
    assert math.isnan(found.low) and math.isnan(found.high)


def test_a_statistic_that_is_nan_has_no_interval():
    found = statistics.bootstrap(lambda i: math.nan, 3, config())
    assert all(map(math.isnan, found))
