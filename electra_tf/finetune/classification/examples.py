"""What classification and regression learn from."""

import dataclasses

from electra_tf.finetune.examples import Example


@dataclasses.dataclass(frozen=True)
class InputExample(Example):
    """A text, or a pair of them.

    Attributes:
      text_a: the text, or the first of the pair.
      text_b: the second of the pair; None for a single text.
      label: of a classification a label, of a regression its value; None
        where it is not known.
    """

    text_a: str
    text_b: str | None = None
    label: str | float | None = None

    @property
    def is_labelled(self) -> bool:
        return self.label is not None
