"""The configuration of question answering; needs no TensorFlow.

Names and defaults are those of the original's `configure_finetuning.py`; where
rows are too short for its lengths, these are shorter.
"""

import dataclasses
import math
from typing import Self

from electra_tf.util.config_fields import Checked, bounded, require
from electra_tf.util.errors import UserError

_SPECIAL = 3  # [CLS] question [SEP] context [SEP]
_QUESTION, _STRIDE = 64, 128  # the original's


@dataclasses.dataclass(frozen=True, kw_only=True)
class QAConfig(Checked):
    """Windows on the context, head and decoding of question answering."""

    max_query_length: int | None = bounded("at least 1", None)
    """Tokens of a question that are read; what is longer is cut. Default: 64;
    in rows that lack the room for it, a quarter of them."""

    doc_stride: int | None = bounded("at least 1", None)
    """Tokens from the beginning of one window on a context to that of the
    next. Default: 128; in rows that lack the room for it, half of what the
    question leaves."""

    joint_prediction: bool = True
    """Choose the end of an answer by its start; without it, each by itself.
    Hugging Face's head has each by itself."""

    beam_size: int = bounded("at least 1", 20)
    """Starts that are tried, and ends for each, with `joint_prediction`."""

    answerable_classifier: bool = True
    """Learn whether there is an answer; without it, and in Hugging Face's
    head, no answer is an answer at [CLS]."""

    answerable_uses_start_logits: bool = True
    """Let that classifier see where an answer might start, not [CLS]
    alone."""

    answerable_weight: float = bounded("at least 0", 0.5)
    """Weight of the loss of that classifier."""

    max_answer_length: int = bounded("at least 1", 30)
    """Tokens in the longest answer."""

    n_best_size: int = bounded("at least 1", 20)
    """Answers that are kept for each question, and places that are tried for
    their start and their end without `joint_prediction`."""

    qa_na_threshold: float | None = None
    """A question whose score of having no answer is above this is left
    without one, where questions may have none. The results also tell the
    best threshold on the dev split. Default: -2.75, the original's; 0 with
    Hugging Face's head."""

    drop_unanswered_windows: bool = False
    """Do not train on windows that lack the answer of an answerable question;
    the original has their answer at [CLS], as here by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "qa_na_threshold", "a number", math.isfinite)

    def threshold(self, head: str) -> float:
        """Returns `qa_na_threshold`, or the default of a kind of head."""
        if self.qa_na_threshold is not None:
            return self.qa_na_threshold
        return 0.0 if head == "hugging_face" else -2.75

    def fitted(self, length: int) -> Self:
        """Returns the same with questions and strides that rows have room for.

        What is given stays as it is.

        Args:
          length: tokens in a row.
        """
        question, stride = self.max_query_length, self.doc_stride
        room = length - _SPECIAL
        if question is None:
            fits = _QUESTION + (stride or _STRIDE) <= room
            most = min(length // 4, room - (stride or 1))
            question = _QUESTION if fits else max(1, min(_QUESTION, most))
        if stride is None:
            fits = question + _STRIDE <= room
            stride = _STRIDE if fits else max(1, (room - question) // 2)
        return dataclasses.replace(
            self, max_query_length=question, doc_stride=stride
        )

    def check_room(self, length: int) -> None:
        """Checks that windows overlap, whatever the question.

        It is for what `fitted` returned.

        Args:
          length: tokens in a row.

        Raises:
          UserError: if a row is too short for that.
        """
        question, stride = self.max_query_length, self.doc_stride
        if question + stride + _SPECIAL <= length:
            return
        fitted = QAConfig().fitted(length)
        raise UserError(
            "`max_query_length` + `doc_stride` + 3 must be at most "
            "`max_seq_length`: a row has room for the longest question, three "
            "special tokens and a window on the context that reaches to the "
            f"next one. Received: {question} + {stride} + 3, "
            f"max_seq_length={length}. Set for example "
            f"max_query_length={fitted.max_query_length} and "
            f"doc_stride={fitted.doc_stride}."
        )
