"""Overlapping windows, for texts that are longer than a row.

Each token takes its scores from the window where the shorter of its two
contexts, left and right, is longest; on ties from the first. Nothing is cut.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple


class Window(NamedTuple):
    """Tokens of a text that are read together.

    Attributes:
      start: the first token that is read.
      end: one past the last token that is read.
      first: the first token that takes its scores from this window.
      stop: one past the last such token.
    """

    start: int
    end: int
    first: int
    stop: int


def windows(num_tokens: int, size: int) -> Iterator[Window]:
    """Yields the windows of a text, each half a window after the one before.

    Args:
      num_tokens: number of tokens in the text.
      size: tokens in a window, at least 1.
    """
    if not num_tokens:
        return
    last = max(0, num_tokens - size)
    starts = [*range(0, last, max(1, size // 2)), last]
    ends = [min(start + size, num_tokens) for start in starts]
    # The shorter sides of two windows are equal halfway between their middles.
    inner = [
        (end - 1 + start) // 2 + 1
        for end, start in zip(ends[:-1], starts[1:], strict=True)
    ]
    owned = itertools.pairwise([0, *inner, num_tokens])
    for start, end, (first, stop) in zip(starts, ends, owned, strict=True):
        yield Window(start, end, first, stop)
