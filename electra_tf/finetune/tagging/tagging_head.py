"""The head of tagging: a dense layer on the first token of each word.

Letters in shapes: B rows, L tokens, H hidden, C tags.
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from electra_tf.finetune.task import Head
from electra_tf.model import layers, tensor_ops
from electra_tf.model.modeling import EncoderOutput

_SCORER_COLUMNS = ("labels_mask", "first_word")


@keras.saving.register_keras_serializable("electra_tf")
class TaggingHead(Head):
    """Scores the tags of each word; no dropout.

    Source: the original's finetune/tagging/tagging_tasks.py. Hugging Face's
    token classification is the same function.

    Shapes: features [B, L]; returns [B, L, C], [B, L].
    """

    def __init__(self, name: str, num_tags: int) -> None:
        super().__init__(name=name)
        self.num_tags = num_tags
        self.dense = layers.Linear(num_tags, None, name="dense")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.dense.build(input_shape)

    def call(
        self,
        states: EncoderOutput,
        features: Mapping[str, tf.Tensor],
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        words = tensor_ops.gather_positions(
            states.sequence_output, features["labeled_positions"]
        )  # [B, L, H]
        logits = self.dense(words)  # [B, L, C]
        return {
            "logits": logits,
            "predictions": tf.argmax(logits, -1, tf.int32),
            "confidences": tf.reduce_max(tf.nn.softmax(logits), -1),
            **{
                name: features[name]
                for name in _SCORER_COLUMNS
                if name in features
            },
        }

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> dict[str, tuple[int | None, ...]]:
        return {"logits": (input_shape[0], None, self.num_tags)}

    def losses(
        self,
        outputs: Mapping[str, tf.Tensor],
        features: Mapping[str, tf.Tensor],
    ) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["labels"], outputs["logits"]
        )
        return tf.reduce_sum(losses * features["loss_mask"], -1)
