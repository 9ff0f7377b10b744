"""Common code of the benchmarks' reports."""

import statistics
from collections.abc import Iterable


def spread(values: Iterable[float]) -> dict[str, float]:
    """Returns the minimum, the median and the maximum."""
    values = list(values)
    return {
        "min": min(values),
        "median": statistics.median(values),
        "max": max(values),
    }
