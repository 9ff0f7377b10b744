"""Where examples begin and end in a text of which nothing is dropped."""

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

MIN_LENGTH = 5
SHORT_SHARE = 0.05
ONE_SEGMENT_SHARE = 0.1


class Span(NamedTuple):
    """An example as a part of a document's tokens.

    Attributes:
      start: of the first segment.
      split: where it ends and the second begins.
      end: of the second segment, which is empty where it equals `split`.
    """

    start: int
    split: int
    end: int

    @property
    def num_tokens(self) -> int:
        """Tokens of the example, [CLS] and one or two [SEP] included."""
        return self.end - self.start + (3 if self.end > self.split else 2)


def carry(
    line_lengths: Sequence[int], max_seq_length: int, rng: random.Random
) -> list[Span]:
    """Cuts a document into examples; what does not fit starts the next.

    An example aims at `max_seq_length` tokens with [CLS] and [SEP], 5 % of the
    examples at a random length. Its first segment holds whole lines up to
    about one half, in 10 % of the examples everything.

    Differs: the original drops what does not fit, up to a third of the text.
    It lets a short line that follows a long one return to the first segment,
    out of order; a single line that fills an example leaves no second segment;
    a short target does not shorten an example whose last line is long. Here
    the text stays in order, such a line is cut, and a target is kept to.

    Args:
      line_lengths: tokens of each line.
      max_seq_length: tokens of an example, at least 5.
      rng: source of the random choices.

    Returns:
      The examples, which cover all tokens in order.

    Example:
      >>> carry([7], 8, random.Random(0))
      [Span(start=0, split=2, end=5), Span(start=5, split=7, end=7)]
    """
    ends = [end for end in itertools.accumulate(line_lengths) if end]
    total = ends[-1] if ends else 0
    spans: list[Span] = []
    line = start = 0
    while start < total:
        target = _draw_target(max_seq_length, rng)
        while ends[line] <= start:
            line += 1
        span = _cut(ends, line, start, target, rng)
        spans.append(span)
        start = span.end
    return spans


def _draw_target(max_seq_length: int, rng: random.Random) -> int:
    if rng.random() < SHORT_SHARE:
        return rng.randint(MIN_LENGTH, max_seq_length)
    return max_seq_length


def _cut(
    ends: list[int], line: int, start: int, target: int, rng: random.Random
) -> Span:
    """Cuts one example that begins at `start`, inside a line."""
    total = ends[-1]
    if rng.random() < ONE_SEGMENT_SHARE:
        end = min(total, start + target - 2)
        return Span(start, end, end)
    first_target = start + (target - 3) // 2
    room = start + target - 3
    split = ends[line]  # a first line joins whatever its length
    for end in itertools.islice(ends, line + 1, None):
        joins = end < first_target or (
            split < first_target and rng.random() < 0.5
        )
        if not joins:
            break
        split = end
    if split >= room:
        split = first_target
    return Span(start, split, min(total, room))
