"""Division of a stream of items into batches."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def batches(
    items: Iterable[Item],
    max_items: float = math.inf,
    *,
    size: Callable[[Item], int] = lambda item: 0,
    enough: float = math.inf,
) -> Iterator[list[Item]]:
    """Yields lists of consecutive items."""
    batch, total = [], 0
    for item in items:
        batch.append(item)
        total += size(item)
        if len(batch) >= max_items or total >= enough:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
