"""How what is there differs from what must be, for the texts of errors."""

from collections.abc import Mapping, Sequence

MAX_LISTED = 10


def listed(names: Sequence[str]) -> str:
    """Joins names, at most `MAX_LISTED` of them, and says how many more.

    Args:
      names: in the order in which to name them.
    """
    more = len(names) - MAX_LISTED
    tail = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:MAX_LISTED]) + tail


def of_shapes(
    expected: Mapping[str, Sequence[int]],
    received: Mapping[str, Sequence[int]],
    *,
    unexpected: str = "unexpected",
) -> str:
    """Says how named shapes differ.

    Args:
      expected: name -> shape.
      received: name -> shape.
      unexpected: what to call names that are not expected.

    Returns:
      An indented line for each kind of difference, each after a line break;
      "" if there is none.
    """
    kinds = {
        "missing": sorted(expected.keys() - received.keys()),
        unexpected: sorted(received.keys() - expected.keys()),
        "of another shape": [
            f"{name} {list(received[name])}, expected {list(expected[name])}"
            for name in sorted(expected.keys() & received.keys())
            if list(expected[name]) != list(received[name])
        ],
    }
    return "".join(
        f"\n  {kind}: {listed(names)}" for kind, names in kinds.items() if names
    )
