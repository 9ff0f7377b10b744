"""What question answering learns from."""

import dataclasses

from electra_tf.finetune.examples import Example


@dataclasses.dataclass(frozen=True)
class QAExample(Example):
    """A question, and the context that may hold its answer.

    Attributes:
      qas_id: names the question in its file.
      question: its text.
      context: the text with the answer.
      words: of the context, as white space divides them.
      answers: right texts, any of which will do; none of a question without
        an answer, or whose answer is not known.
      answer_text: the answer to learn; empty where there is none.
      first_word: number of its first word; None where there is no answer, or
        where it does not stand in the context.
      last_word: of its last word.
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
    is_impossible: bool = False

    @property
    def is_labelled(self) -> bool:
        return bool(self.answers) or self.is_impossible

    @property
    def is_found(self) -> bool:
        """Whether the answer to learn stands in the context."""
        return self.first_word is not None
