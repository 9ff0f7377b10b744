"""Heads on [CLS]: the original's layer, and Hugging Face's two.

Letters in shapes: B rows, L tokens, H hidden, C classes.
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from electra_tf.finetune.task import Head
from electra_tf.model import layers, tensor_ops
from electra_tf.model.modeling import EncoderOutput
from electra_tf.util import seeds

_DROPOUT = 0.1  # independent of the encoder's
_INITIALIZER_RANGE = 0.02  # of Hugging Face's layers

Tensors = Mapping[str, tf.Tensor]


class ClassificationHead(Head):
    """Dropout on the state of [CLS], then a dense layer.

    Source: the original's finetune/classification/classification_tasks.py;
    `hugging_face`: transformers' `ElectraClassificationHead`.
    """

    def __init__(
        self, name: str, num_outputs: int, kind: str = "electra"
    ) -> None:
        super().__init__(name, kind)
        self.num_outputs = num_outputs

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        if self.kind == "electra":
            self.dense = layers.Linear(self.num_outputs, None, name="dense")
            self.dense.build(input_shape)
            return
        width, scale = input_shape[-1], _INITIALIZER_RANGE
        self.dense = layers.Linear(width, scale, name="dense")
        self.out_proj = layers.Linear(self.num_outputs, scale, name="out_proj")
        with keras.name_scope("classifier"):
            self.dense.build(input_shape)
            self.out_proj.build(input_shape)

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        x = tensor_ops.dropout(states.pooled_output, _DROPOUT, keys)  # [B, H]
        x = self.dense(x)
        if self.kind == "hugging_face":
            keys = seeds.fold_in(keys, 1)
            x = tensor_ops.dropout(tensor_ops.gelu(x), _DROPOUT, keys)
            x = self.out_proj(x)
        return {"logits": x}

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["label_ids"], outputs["logits"]
        )


class RegressionHead(ClassificationHead):
    """A `ClassificationHead` with one output, for targets in [0, 1]."""

    def __init__(self, name: str, kind: str = "electra") -> None:
        super().__init__(name, 1, kind)

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        logits = super().call(states, features, keys)["logits"]
        return {"predictions": tf.squeeze(logits, -1)}  # [B]

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        return tf.square(outputs["predictions"] - features["targets"])
