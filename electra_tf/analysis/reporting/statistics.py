"""Confidence intervals: bootstrap, Wilson, and of means."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.config.analysis import AnalysisConfig

_LEVEL = 0.95
_Z = 1.959964  # of a normal distribution, two-sided 95 %


class Interval(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(np.nan, np.nan, np.nan)
"""For a figure without data."""


def bootstrap(
    statistic: Callable[[np.ndarray], float],
    num_items: int,
    config: AnalysisConfig,
) -> Interval:
    """Computes a statistic and its bootstrap percentile interval."""
    random = np.random.default_rng(config.seed)
    figures = [
        statistic(random.integers(num_items, size=num_items))
        for _ in range(config.num_resamples)
    ]
    value = statistic(np.arange(num_items))
    if np.isnan(figures).all():
        return UNKNOWN._replace(value=float(value))
    tail = 100 * (1 - _LEVEL) / 2
    low, high = np.nanpercentile(figures, [tail, 100 - tail])
    return Interval(float(value), float(low), float(high))


def shown(interval: Interval, digits: int = 3) -> str:
    """Writes "1.50 [1.25, 1.75]"; "none" for NaN."""
    if np.isnan(interval.value):
        return "none"
    ends = (interval.value, interval.low, interval.high)
    value, low, high = (f"{x:.{digits}f}" for x in ends)
    return f"{value} [{low}, {high}]"


def wilson(successes: float, trials: int) -> Interval:
    """Computes a proportion and its Wilson score interval.

    Source: Wilson, 1927.
    """
    if not trials:
        return UNKNOWN
    share, z2 = successes / trials, _Z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    variance = share * (1 - share) / trials + z2 / (4 * trials**2)
    half = _Z * math.sqrt(variance) / (1 + z2 / trials)
    low, high = max(0.0, centre - half), min(1.0, centre + half)  # rounding
    return Interval(share, min(low, share), max(high, share))


def mean(shares: Sequence[Interval]) -> Interval:
    """Computes the unweighted mean of independent proportions.

    Source: Zou and Donner, 2008 (variances recovered from the intervals).
    """
    count = len(shares)
    value = sum(share.value for share in shares) / count
    below = math.hypot(*(share.value - share.low for share in shares)) / count
    above = math.hypot(*(share.high - share.value for share in shares)) / count
    return Interval(value, value - below, value + above)
