"""From tokenized lines to pre-training examples, by the original's rules.

`spans.carry` is what data sets are built with unless --packing=original asks
for this.
"""

import random
from typing import NamedTuple

from electra_tf.data.spans import MIN_LENGTH, ONE_SEGMENT_SHARE, SHORT_SHARE

_NO_LIMIT = 100_000  # the original's "long enough for one segment"


class Example(NamedTuple):
    """One pre-training example, without its special tokens.

    Attributes:
      first: ids of the first segment, at least one.
      second: ids of the second segment, or none.
    """

    first: list[int]
    second: list[int]


class ExampleBuilder:
    """Packs the lines of documents into examples of two segments.

    An example is made when enough tokens wait for it. It aims at
    `max_seq_length` tokens with [CLS] and [SEP], 5 % of the examples at a
    random length. Its first segment holds whole lines up to about one half,
    in 10 % of the examples everything. What does not fit is dropped, up to a
    third of the text.

    Args:
      max_seq_length: tokens of an example, at least 5.
      rng: source of the random choices; its state `random.seed(n)` gives the
        original's examples under that seed.

    Example:
      >>> builder = ExampleBuilder(8, random.Random(0))
      >>> builder.add_line([11, 12, 13, 14, 15, 16, 17, 18])
      [Example(first=[11, 12, 13, 14, 15, 16], second=[])]

    Source: build_pretraining_dataset.py, `ExampleBuilder`.
    """

    def __init__(self, max_seq_length: int, rng: random.Random) -> None:
        self._max_seq_length = max_seq_length
        self._rng = rng
        self._lines: list[list[int]] = []
        self._num_waiting = 0
        self._target = max_seq_length

    def add_line(self, ids: list[int]) -> list[Example]:
        """Adds a line of a document.

        Args:
          ids: its tokens; may be empty.

        Returns:
          The example that became full, if one did.
        """
        if ids:
            self._lines.append(ids)
            self._num_waiting += len(ids)
        if self._num_waiting >= self._target:  # [CLS] and [SEP] are forgotten
            return [self._create_example()]
        return []

    def end_document(self) -> list[Example]:
        """Returns what is left of the document as its last example, if any."""
        return [self._create_example()] if self._num_waiting else []

    def _create_example(self) -> Example:
        """Takes everything and drops what does not fit."""
        if self._rng.random() < ONE_SEGMENT_SHARE:
            first_target = _NO_LIMIT
        else:
            first_target = (self._target - 3) // 2
        first: list[int] = []
        second: list[int] = []
        for line in self._lines:
            if self._joins_first(
                len(first), len(line), len(second), first_target
            ):
                first += line
            else:
                second += line
        self._lines.clear()
        self._num_waiting = 0
        self._target = self._draw_target()
        first = first[: self._max_seq_length - 2]
        room = max(0, self._max_seq_length - len(first) - 3)
        return Example(first, second[:room])

    def _draw_target(self) -> int:
        if self._rng.random() < SHORT_SHARE:
            return self._rng.randint(MIN_LENGTH, self._max_seq_length)
        return self._max_seq_length

    def _joins_first(
        self, num_first: int, num_line: int, num_second: int, target: int
    ) -> bool:
        """Decides whether a line goes to the first segment.

        It does if the segment is empty or stays below its target, and, once,
        in half of the cases where it reaches or passes it.
        """
        return (
            num_first == 0
            or num_first + num_line < target
            or (
                num_second == 0
                and num_first < target
                and self._rng.random() < 0.5
            )
        )
