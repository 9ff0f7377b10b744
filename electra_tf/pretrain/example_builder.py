"""From tokenized lines to pre-training examples."""

import collections
import random
from typing import NamedTuple

ONE_SEGMENT_SHARE = 0.1
SHORT_SHARE = 0.05
MIN_LENGTH = 5  # [CLS] a [SEP] b [SEP]
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
    in 10 % of the examples everything.

    With `carry` no token is lost: what does not fit starts the next example.

    Differs: the original (`carry=False`) drops what does not fit, up to a
    third of the text. It lets a short line that follows a long one return to
    the first segment, out of order; a single line that fills an example leaves
    no second segment; a short target does not shorten an example whose last
    line is long. With `carry` the text stays in order, such a line is cut, and
    a target is kept to.

    Args:
      max_seq_length: tokens of an example, at least 5.
      rng: source of the random choices. With `carry=False` its state
        `random.seed(n)` gives the original's examples under that seed.
      carry: whether the overflow starts the next example or is dropped.

    Example:
      >>> builder = ExampleBuilder(8, random.Random(0))
      >>> builder.add_line([11, 12, 13, 14, 15, 16, 17])
      [Example(first=[11, 12], second=[13, 14, 15])]
      >>> builder.end_document()
      [Example(first=[16, 17], second=[])]

    Source: build_pretraining_dataset.py, `ExampleBuilder`.
    """

    def __init__(
        self, max_seq_length: int, rng: random.Random, *, carry: bool = True
    ) -> None:
        self._max_seq_length = max_seq_length
        self._rng = rng
        self._carry = carry
        self._lines: collections.deque[list[int]] = collections.deque()
        self._num_waiting = 0
        self._target = self._draw_target() if carry else max_seq_length

    def add_line(self, ids: list[int]) -> list[Example]:
        """Adds a line of a document.

        Args:
          ids: its tokens; may be empty.

        Returns:
          The examples that became full, of which one line may make several.
        """
        if ids:
            self._lines.append(ids)
            self._num_waiting += len(ids)
        examples = []
        while self._is_full():
            examples.append(self._create_example())
        return examples

    def end_document(self) -> list[Example]:
        """Returns what is left of the document as its last example, if any."""
        return [self._create_example()] if self._num_waiting else []

    def _is_full(self) -> bool:
        num_special = 2 if self._carry else 0  # the original forgets them
        return self._num_waiting >= self._target - num_special

    def _create_example(self) -> Example:
        if self._rng.random() < ONE_SEGMENT_SHARE:
            first_target = _NO_LIMIT
        else:
            first_target = (self._target - 3) // 2
        split = self._split_all if self._carry else self._split_original
        example = split(first_target)
        self._target = self._draw_target()
        return example

    def _draw_target(self) -> int:
        if self._rng.random() < SHORT_SHARE:
            return self._rng.randint(MIN_LENGTH, self._max_seq_length)
        return self._max_seq_length

    def _split_all(self, first_target: int) -> Example:
        """Takes the text in order and leaves what does not fit."""
        if first_target == _NO_LIMIT:
            return Example(self._take(self._target - 2), [])
        room = self._target - 3
        num_first = 0
        for line in self._lines:
            if not self._joins_first(num_first, len(line), 0, first_target):
                break
            num_first += len(line)
        if num_first >= room:
            num_first = first_target
        first = self._take(num_first)
        return Example(first, self._take(room - num_first))

    def _split_original(self, first_target: int) -> Example:
        """Takes everything and drops what does not fit."""
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
        first = first[: self._max_seq_length - 2]
        room = max(0, self._max_seq_length - len(first) - 3)
        return Example(first, second[:room])

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

    def _take(self, num_wanted: int) -> list[int]:
        """Removes the next tokens, at most so many, and returns them."""
        taken: list[int] = []
        while self._lines and len(taken) < num_wanted:
            line = self._lines.popleft()
            num_free = num_wanted - len(taken)
            taken += line[:num_free]
            if len(line) > num_free:
                self._lines.appendleft(line[num_free:])
        self._num_waiting -= len(taken)
        return taken
