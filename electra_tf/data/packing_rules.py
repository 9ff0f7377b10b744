"""From the lines of a document to examples, and from examples to rows.

`carry` builds data sets by default; `ExampleBuilder` follows the original's
rules, for --packing=original; `fill_rows` lets examples share rows, for
--packing=packed.
"""

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

MIN_LENGTH = 5
SHORT_SHARE = 0.05
ONE_SEGMENT_SHARE = 0.1
MAX_EXAMPLES = 127  # in a row: larger numbers take two bytes in a record
_NO_LIMIT = 100_000  # the original's "long enough for one segment"


class ExampleSpan(NamedTuple):
    """An example as positions in the tokens of a document."""

    start: int
    split: int
    end: int

    @property
    def num_tokens(self) -> int:
        """Tokens of the example, [CLS] and one or two [SEP] included."""
        return self.end - self.start + (3 if self.end > self.split else 2)


def carry(
    line_lengths: Sequence[int], max_seq_length: int, rng: random.Random
) -> list[ExampleSpan]:
    """Cuts a document into examples; text that does not fit starts the next.

    Differs: the original drops text that does not fit, up to a third of it.
    It lets a short line that follows a long one return to the first segment,
    out of order; a single line that fills an example leaves no second segment;
    a short target does not shorten an example whose last line is long. Here
    the text stays in order, such a line is cut, and no target is exceeded.
    """
    ends = [end for end in itertools.accumulate(line_lengths) if end]
    total = ends[-1] if ends else 0
    spans: list[ExampleSpan] = []
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
    """Draws the target length of an example, in tokens."""
    if rng.random() < SHORT_SHARE:
        return rng.randint(MIN_LENGTH, max_seq_length)
    return max_seq_length


def _cut(
    ends: list[int], line: int, start: int, target: int, rng: random.Random
) -> ExampleSpan:
    """Cuts one example that begins at `start`, in the given line."""
    total = ends[-1]
    if rng.random() < ONE_SEGMENT_SHARE:
        end = min(total, start + target - 2)
        return ExampleSpan(start, end, end)
    first_target = start + (target - 3) // 2
    room = start + target - 3
    split = ends[line]  # the first line joins, whatever its length
    for end in itertools.islice(ends, line + 1, None):
        joins = end < first_target or (
            split < first_target and rng.random() < 0.5
        )
        if not joins:
            break
        split = end
    if split >= room:
        split = first_target
    return ExampleSpan(start, split, min(total, room))


class Example(NamedTuple):
    """A pre-training example of the original, without its special tokens."""

    first: list[int]
    second: list[int]


class ExampleBuilder:
    """Packs the lines of documents into examples of two segments.

    Source: build_pretraining_dataset.py, `ExampleBuilder`.
    """

    def __init__(self, max_seq_length: int, rng: random.Random) -> None:
        self._max_seq_length = max_seq_length
        self._rng = rng
        self._lines: list[list[int]] = []
        self._num_tokens = 0
        self._target = max_seq_length

    def add_line(self, ids: list[int]) -> list[Example]:
        """Adds a line of a document."""
        if ids:
            self._lines.append(ids)
            self._num_tokens += len(ids)
        if self._num_tokens >= self._target:  # without [CLS] and [SEP]
            return [self._create_example()]
        return []

    def end_document(self) -> list[Example]:
        """Returns the rest of the document as its last example, if any."""
        return [self._create_example()] if self._num_tokens else []

    def _create_example(self) -> Example:
        """Creates an example of all tokens; drops those that do not fit."""
        if self._rng.random() < ONE_SEGMENT_SHARE:
            first_target = _NO_LIMIT
        else:
            first_target = (self._target - 3) // 2
        first: list[int] = []
        second: list[int] = []
        for line in self._lines:
            # A line that reaches the target joins with probability 1/2.
            joins = (
                not first
                or len(first) + len(line) < first_target
                or (
                    not second
                    and len(first) < first_target
                    and self._rng.random() < 0.5
                )
            )
            (first if joins else second).extend(line)
        self._lines.clear()
        self._num_tokens = 0
        self._target = _draw_target(self._max_seq_length, self._rng)
        first = first[: self._max_seq_length - 2]
        room = max(0, self._max_seq_length - len(first) - 3)
        return Example(first, second[:room])


def fill_rows(sizes: Sequence[int], max_seq_length: int) -> list[list[int]]:
    """Distributes examples over rows."""
    rows: list[list[int]] = []
    rows_by_free: list[list[list[int]]] = [
        [] for _ in range(max_seq_length + 1)
    ]
    free_sizes = 0  # bit n is set if some row has room for exactly n tokens
    for example in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        size = sizes[example]
        if large_enough := free_sizes >> size:
            lowest_bit = large_enough & -large_enough
            free = size + lowest_bit.bit_length() - 1
            row = rows_by_free[free].pop()
            if not rows_by_free[free]:
                free_sizes ^= 1 << free
        else:
            free, row = max_seq_length, []
            rows.append(row)
        row.append(example)
        if len(row) < MAX_EXAMPLES:
            rows_by_free[free - size].append(row)
            free_sizes |= 1 << free - size
    return sorted(map(sorted, rows))


def rows_of(
    spans: Sequence[ExampleSpan], max_seq_length: int, *, is_packed: bool
) -> list[list[ExampleSpan]]:
    """Returns the examples in each row."""
    if not is_packed:
        return [[span] for span in spans]
    rows = fill_rows([span.num_tokens for span in spans], max_seq_length)
    return [[spans[number] for number in row] for row in rows]
