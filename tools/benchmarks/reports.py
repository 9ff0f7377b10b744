"""Common code of the benchmarks' reports."""

import statistics
from collections.abc import Iterable, Sequence


def spread(values: Iterable[float]) -> dict[str, float]:
    """Returns the minimum, the median and the maximum."""
    values = list(values)
    return {
        "min": min(values),
        "median": statistics.median(values),
        "max": max(values),
    }


def median_ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the median of `first / second`, turn by turn."""
    return statistics.median(a / b for a, b in zip(first, second, strict=True))
