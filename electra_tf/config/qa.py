"""The configuration of question answering; needs no TensorFlow.

Names and defaults are those of the original's `configure_finetuning.py`; if
rows are too short for its default lengths, shorter ones are used.
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
    """Context windows, head and decoding of question answering."""

    max_query_length: int | None = bounded("at least 1", None)
    """Maximum tokens of a question; longer ones are truncated. Default: 64, or
    a quarter of a row that is too short for it."""

    doc_stride: int | None = bounded("at least 1", None)
    """Tokens between the starts of two consecutive windows on a context.
    Default: 128, or half of what the question leaves in a row that is too short
    for it."""

    joint_prediction: bool = True
    """Predict the end of an answer given its start; otherwise both are
    predicted independently, as always by Hugging Face's head."""

    beam_size: int = bounded("at least 1", 20)
    """Start positions that are tried, and end positions for each, with
    `joint_prediction`."""

    answerable_classifier: bool = True
    """Train a classifier of whether a question has an answer. Without it, and
    with Hugging Face's head, "no answer" is an answer at [CLS]."""

    answerable_uses_start_logits: bool = True
    """Give that classifier also the hidden states weighted by the start logits,
    not only [CLS]."""

    answerable_weight: float = bounded("at least 0", 0.5)
    """Weight of the loss of that classifier."""

    max_answer_length: int = bounded("at least 1", 30)
    """Maximum tokens in an answer."""

    n_best_size: int = bounded("at least 1", 20)
    """Answers that are kept for each question; without `joint_prediction` also
    the start and end positions that are tried."""

    qa_na_threshold: float | None = None
    """If questions may be unanswerable: a question whose no-answer score is
    above this gets no answer. The results also report the best threshold on the
    dev split. Default: -2.75, as in the original; 0 with Hugging Face's
    head."""

    drop_unanswered_windows: bool = False
    """Do not train on windows that lack the answer of an answerable question;
    by default, as in the original, their answer is at [CLS]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "qa_na_threshold", "a number", math.isfinite)

    def threshold(self, head: str) -> float:
        """Returns `qa_na_threshold`, or its default for a kind of head."""
        if self.qa_na_threshold is not None:
            return self.qa_na_threshold
        return 0.0 if head == "hugging_face" else -2.75

    def fitted(self, length: int) -> Self:
        """Returns a copy whose lengths fit into rows of `length` tokens."""
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

    def check_row_length(self, length: int) -> None:
        """Checks that windows leave no gap, even after the longest question."""
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
