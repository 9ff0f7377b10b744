"""The encoder alone, for vectors and for Keras models of your own."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune.examples import TOKENS
from electra_tf.finetune.features import Features
from electra_tf.finetune.keras_models.base import Batch, ElectraModel
from electra_tf.finetune.keras_models.inputs import Texts, columns_of

POOLINGS = ("mean", "cls")

Strings = tf.Tensor | tuple[tf.Tensor, tf.Tensor]
"""string [B]; or two of them, for pairs."""


@keras.saving.register_keras_serializable("electra_tf")
class ElectraBackbone(ElectraModel):
    """Encodes strings, or token ids, as vectors.

    Example:
      backbone = electra_tf.ElectraBackbone.from_checkpoint(path)
      texts = keras.Input((), dtype="string")
      vectors = backbone(texts)["pooled_output"]
      model = keras.Model(texts, keras.layers.Dense(2)(vectors))

    It can be part of functional models and of subclasses. `embed` computes
    vectors without any training.

    Args: see `ElectraModel`.

    Call arguments:
      inputs: string [B], or a tuple of two of them for pairs; or "input_ids",
        int32 [B, L], and optionally "input_mask", by default 1 where ids are
        not 0, and "segment_ids", by default 0, as `preprocess` makes them.
      training: whether dropout is on.

    Returns:
      "sequence_output", [B, L, H], and "pooled_output", [B, H], the state of
      [CLS]; of the policy's compute dtype. For strings also "input_ids" and
      "input_mask", int32 [B, L]. Padding has states, too: pool over tokens
      with the mask.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self.supports_jit = False  # XLA has no strings
        self.built = True

    def call(
        self, inputs: Batch | Strings, training: bool = False
    ) -> dict[str, tf.Tensor]:
        is_text = not isinstance(inputs, Mapping)
        if is_text:
            pair = inputs if isinstance(inputs, tuple | list) else (inputs,)
            inputs = self.preprocess(*pair)
        states, _ = self.states(self.complete(inputs), training)
        outputs = {
            "sequence_output": states.sequence_output,
            "pooled_output": states.pooled_output,
        }
        if is_text:
            outputs |= {k: inputs[k] for k in ("input_ids", "input_mask")}
        return outputs

    def embed(
        self,
        texts: Texts,
        *,
        pooling: str = "mean",
        layer: int = -1,
        batch_size: int = 32,
    ) -> np.ndarray:
        """Computes a vector for each text.

        Args:
          texts: texts or pairs, as `ElectraClassifier` takes them.
          pooling: "mean" over the tokens, or "cls" for the first token.
          layer: block whose states are taken, from 0; -1 for the last.
          batch_size: rows in a batch; no vector depends on it.

        Returns:
          float32 [n, H].
        """
        if pooling not in POOLINGS:
            raise ValueError(f"{pooling=} is none of {POOLINGS}.")
        columns, length = columns_of(texts), self.max_seq_length
        rows = self.tokenizer.rows(*columns, length=length)
        features = Features(rows, TOKENS)
        found = np.zeros(
            (features.num_rows, self.encoder.config.hidden_size), np.float32
        )
        for indices, batch in features.batches(batch_size):
            found[indices] = self._pooled(batch, pooling, layer).numpy()
        return found

    @tf.function(reduce_retracing=True, autograph=False)
    def _pooled(self, batch: Batch, pooling: str, layer: int) -> tf.Tensor:
        states, _ = self.states(batch, training=False)
        x = tf.cast(states.all_layers[layer], tf.float32)  # [B, L, H]
        if pooling == "cls":
            return x[:, 0]
        mask = tf.cast(batch["input_mask"], tf.float32)[..., tf.newaxis]
        return tf.reduce_sum(x * mask, 1) / tf.reduce_sum(mask, 1)
