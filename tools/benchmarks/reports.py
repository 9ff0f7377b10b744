"""Common code of the benchmarks' reports."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from electra_tf.util.errors import UserError

_LARGEST_DIFFERENCE = 1e-3


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


def check_differences(what: str, differences: Mapping[str, float]) -> float:
    """Checks that all peers compute the same.

    Args:
      what: they compute.
      differences: name of a peer -> its largest difference from another.

    Returns:
      The largest difference.

    Raises:
      UserError: if one is 1e-3 or more, or NaN.
    """
    for name, difference in differences.items():
        if not difference < _LARGEST_DIFFERENCE:  # true for NaN, too
            raise UserError(
                f"All peers must compute the same {what}, within "
                f"{_LARGEST_DIFFERENCE}. Received: {difference} from {name}. "
                "No times are reported."
            )
    return max(differences.values())
