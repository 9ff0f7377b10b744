"""What all heads of question answering have in common.

Letters in shapes: B rows, L tokens.
"""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf.finetune.task import Head

NEVER = -1000.0
"""What is added to a logit where no answer can be."""
PASSED_ON = ("input_ids", "word_numbers", "is_max_context")
"""Columns of the rows that the scorer reads."""

Tensors = Mapping[str, tf.Tensor]


class QAHead(Head):
    """What all heads of question answering have in common.

    Call arguments:
      states: an `EncoderOutput`.
      features: "input_mask" and "segment_ids", int32 [B, L], which together
        say where the context is; and, but in serving, those of `PASSED_ON`,
        int32 [B, L], and "start_positions", int32 [B], where the answer
        starts.
      keys: uint32 [B]; there is no dropout, but where they are None it is not
        trained.

    Returns:
      "start_logits" and "end_logits", float32 [B, L], and the columns of
      `PASSED_ON` as they came; further outputs see the head.
    """

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> dict[str, tuple[int | None, ...]]:
        shape = (input_shape[0], None)
        return {"start_logits": shape, "end_logits": shape}

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        """Computes the mean of the losses of start and end.

        Args:
          outputs: of `call`.
          features: with "start_positions" and "end_positions", int32 [B]: 0,
            the place of [CLS], where there is no answer.

        Returns:
          float32 [B].
        """
        sides = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                features[f"{side}_positions"], outputs[f"{side}_logits"]
            )
            for side in ("start", "end")
        ]
        return sum(sides) / 2.0


def passed_on(features: Tensors) -> dict[str, tf.Tensor]:
    """Returns the columns of `PASSED_ON`; none where nothing is scored."""
    is_scored = features.keys() >= {*PASSED_ON}
    return {name: features[name] for name in PASSED_ON if is_scored}
