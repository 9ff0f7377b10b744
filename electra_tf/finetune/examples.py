"""Examples of tasks, and the columns of their rows of token ids."""

import abc
import dataclasses
from typing import NamedTuple


@dataclasses.dataclass(frozen=True)
class Example(abc.ABC):
    """An example of a task: its inputs, and its label if that is known."""

    eid: int

    @property
    @abc.abstractmethod
    def is_labelled(self) -> bool:
        """Whether the right answer is known."""


@dataclasses.dataclass(frozen=True)
class InputExample(Example):
    """A text or a pair of texts, of classification and regression."""

    text_a: str
    text_b: str | None = None
    label: str | float | None = None

    @property
    def is_labelled(self) -> bool:
        return self.label is not None


@dataclasses.dataclass(frozen=True)
class TaggedSentence(Example):
    """A sentence to tag."""

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()

    @property
    def is_labelled(self) -> bool:
        return bool(self.tags)


@dataclasses.dataclass(frozen=True)
class QAExample(Example):
    """A question, and the context that may hold its answer."""

    qas_id: str
    question: str
    context: str
    words: tuple[str, ...]
    answers: tuple[str, ...] = ()
    answer_text: str = ""
    first_word: int | None = None
    last_word: int | None = None
    answer_start: int = 0
    answer_end: int | None = None
    is_impossible: bool = False

    @property
    def is_labelled(self) -> bool:
        return bool(self.answers) or self.is_impossible

    @property
    def is_found(self) -> bool:
        """Whether the answer to learn stands in the context."""
        return self.first_word is not None


class FeatureSpec(NamedTuple):
    """A column of the rows."""

    name: str
    is_float: bool = False
    is_sequence: bool = False


TOKENS = (
    FeatureSpec("input_ids", is_sequence=True),
    FeatureSpec("segment_ids", is_sequence=True),
)
"""The columns of every task; `input_mask` is made with the batch."""
EID = FeatureSpec("eid")
"""The number of the example that a row is from."""
