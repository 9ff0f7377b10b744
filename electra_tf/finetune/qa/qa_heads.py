"""Heads of question answering by their kinds, and Hugging Face's.

Letters in shapes: B rows, L tokens.
"""

import keras
import tensorflow as tf

from electra_tf.config.qa import QAConfig
from electra_tf.finetune.qa.answerable_heads import (
    IndependentQAHead,
    JointQAHead,
)
from electra_tf.finetune.qa.qa_head import NEVER, QAHead, Tensors, passed_on
from electra_tf.model import layers
from electra_tf.model.modeling import EncoderOutput


@keras.saving.register_keras_serializable("electra_tf")
class HuggingFaceQAHead(QAHead):
    """One dense layer: the start and the end each by itself, on any token.

    Source: transformers' `ElectraForQuestionAnswering`, whose layer
    `qa_outputs` stands here in two, `dense` and `dense_1`. Differs: there an
    answer may also be at padding, so that losses depend on how much there is.

    Args:
      name: of the task.
      initializer_range: of the layer.

    See `QAHead` for arguments of the call and what it returns.
    """

    def __init__(self, name: str, *, initializer_range: float = 0.02) -> None:
        super().__init__(name=name)
        self.initializer_range = initializer_range
        self.start = layers.Linear(1, initializer_range, name="dense")
        self.end = layers.Linear(1, initializer_range, name="dense_1")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.start.build(input_shape)
        self.end.build(input_shape)

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        tokens = states.sequence_output
        is_padding = 1.0 - tf.cast(features["input_mask"], tf.float32)
        outside = NEVER * is_padding  # [B, L]
        return {
            **passed_on(features),
            "start_logits": tf.squeeze(self.start(tokens), -1) + outside,
            "end_logits": tf.squeeze(self.end(tokens), -1) + outside,
        }

    def get_config(self) -> dict:
        return {
            "name": self.name,
            "initializer_range": self.initializer_range,
        }


def make_head(
    name: str, kind: str, config: QAConfig, *, initializer_range: float = 0.02
) -> QAHead:
    """Makes the head of a configuration.

    Args:
      name: of the task.
      kind: "electra" or "hugging_face".
      config: of question answering.
      initializer_range: of Hugging Face's layer.
    """
    if kind == "hugging_face":
        return HuggingFaceQAHead(name, initializer_range=initializer_range)
    answerable = {
        "answerable_classifier": config.answerable_classifier,
        "answerable_uses_start_logits": config.answerable_uses_start_logits,
        "answerable_weight": config.answerable_weight,
    }
    if config.joint_prediction:
        return JointQAHead(name, beam_size=config.beam_size, **answerable)
    return IndependentQAHead(name, **answerable)
