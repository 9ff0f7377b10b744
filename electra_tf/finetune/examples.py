"""Examples of tasks, and the columns of their rows of token ids."""

import abc
import dataclasses
from typing import NamedTuple


@dataclasses.dataclass(frozen=True)
class Example(abc.ABC):
    """An example of a task: its inputs, and its label if that is known.

    Attributes:
      eid: its number among the rows of its file, from 0.
    """

    eid: int

    @property
    @abc.abstractmethod
    def is_labelled(self) -> bool:
        """Whether the right answer is known."""


@dataclasses.dataclass(frozen=True)
class InputExample(Example):
    """A text or a pair of texts, of classification and regression.

    Attributes:
      text_a: the text, or the first of the pair.
      text_b: the second of the pair; None for a single text.
      label: a label in classification, a value in regression; None if
        unknown.
    """

    text_a: str
    text_b: str | None = None
    label: str | float | None = None

    @property
    def is_labelled(self) -> bool:
        return self.label is not None


@dataclasses.dataclass(frozen=True)
class TaggedSentence(Example):
    """A sentence to tag.

    Attributes:
      words: of the sentence.
      tags: one for each word, in the encoding of the model; empty if unknown.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()

    @property
    def is_labelled(self) -> bool:
        return bool(self.tags)


@dataclasses.dataclass(frozen=True)
class QAExample(Example):
    """A question, and the context that may hold its answer.

    Attributes:
      qas_id: names the question in its file.
      question: its text.
      context: the text with the answer.
      words: the context, split at white space.
      answers: gold answers, any of which is right; empty if the question has
        no answer or its answer is unknown.
      answer_text: the answer to learn; empty if there is none.
      first_word: number of its first word in the context; None if there is no
        answer, or if the context does not hold it.
      last_word: number of its last word.
      answer_start: the character of its first word that the answer begins at.
      answer_end: one past the character of its last word that it ends at; None
        for the end of the word.
      is_impossible: whether the context holds no answer.
    """

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
    """A column of the rows.

    Attributes:
      name: of the feature.
      is_float: whether it holds float32; else int32.
      is_sequence: whether a row has a variable number of values, padded with
        zeros; else it has one.
    """

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
