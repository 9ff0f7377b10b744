"""Common checks of the benchmarks: of flags, and of what peers compute."""

from collections.abc import Iterable, Mapping

from electra_tf.util.config_fields import require
from electra_tf.util.errors import UserError

_LARGEST_DIFFERENCE = 1e-3


def require_known(
    config: object, name: str, known: Iterable[str], *, some: bool = False
) -> None:
    """Checks that a field holds known names only."""
    require(
        config,
        name,
        f"{'some of' if some else 'of'} {', '.join(known)}",
        lambda given: set(given) <= set(known) and (given or not some),
    )


def require_counts(config: object, names: str) -> None:
    """Checks that fields hold numbers from 1, and at least one."""
    require(config, names, "numbers from 1", lambda x: x and min(x) >= 1)


def require_same(what: str, differences: Mapping[str, float]) -> float:
    """Checks that all peers compute the same."""
    for name, difference in differences.items():
        if not difference < _LARGEST_DIFFERENCE:  # true for NaN, too
            raise UserError(
                f"All peers must compute the same {what}, within "
                f"{_LARGEST_DIFFERENCE}. Received: {difference} from {name}. "
                "No times are reported."
            )
    return max(differences.values())
