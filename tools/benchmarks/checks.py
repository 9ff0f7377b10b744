"""Common checks of the benchmarks: of flags, and of what peers compute."""

from collections.abc import Iterable, Mapping

from electra_tf.util.config_fields import require
from electra_tf.util.errors import UserError

_LARGEST_DIFFERENCE = 1e-3


def require_known(
    config: object, name: str, known: Iterable[str], *, some: bool = False
) -> None:
    """Checks that a field holds known names only.

    Args:
      config: the dataclass.
      name: of the field.
      known: names that it may hold.
      some: whether it must hold at least one.

    Raises:
      UserError: naming the field and the known names.
    """
    require(
        config,
        name,
        f"{'some of' if some else 'of'} {', '.join(known)}",
        lambda given: set(given) <= set(known) and (given or not some),
    )


def require_counts(config: object, names: str) -> None:
    """Checks that fields hold numbers from 1, and at least one.

    Args:
      config: the dataclass.
      names: names of the fields, separated by spaces.

    Raises:
      UserError: naming the first field that does not.
    """
    require(config, names, "numbers from 1", lambda x: x and min(x) >= 1)


def require_same(what: str, differences: Mapping[str, float]) -> float:
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
