"""Examples of a task, and the columns of the rows made of them."""

import abc
import dataclasses
from typing import NamedTuple


@dataclasses.dataclass(frozen=True)
class Example(abc.ABC):
    """One thing to learn from or to answer.

    Attributes:
      eid: its number among the rows of its file, from 0.
    """

    eid: int

    @property
    @abc.abstractmethod
    def is_labelled(self) -> bool:
        """Whether the right answer is known."""


class FeatureSpec(NamedTuple):
    """One column.

    Attributes:
      name: of the feature.
      is_float: whether it holds float32; else int32.
      is_sequence: whether a row has any number of values, filled up with
        zeros; else it has one.
    """

    name: str
    is_float: bool = False
    is_sequence: bool = False


TOKENS = (
    FeatureSpec("input_ids", is_sequence=True),
    FeatureSpec("segment_ids", is_sequence=True),
)
"""What every task has; `input_mask` is made with the batch."""
EID = FeatureSpec("eid")
"""The example that a row is from."""
