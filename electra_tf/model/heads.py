"""The prediction heads of pre-training, with N masked slots in a row.

Source: the original's run_pretraining.py; variable paths are its names.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import layers, tensor_ops, vocabulary_softmax


class Projection(keras.layers.Layer):
    """Projects hidden states: LayerNorm(gelu(x W + b))."""

    def __init__(
        self,
        width: int,
        initializer_range: float,
        name: str,
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.width = width
        self.initializer_range = initializer_range
        self.dense = layers.Linear(
            width, initializer_range, name="dense", dtype=self.dtype_policy
        )
        self.layer_norm = layers.LayerNorm()

    def build(self, input_shape: layers.Shape) -> None:
        self.dense.build(input_shape)
        self.layer_norm.build((*input_shape[:-1], self.width))

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """Projects hidden states [..., H] to [..., P]."""
        return self.layer_norm(tensor_ops.gelu(self.dense(x)))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.project(x)


class TokenDistribution(NamedTuple):
    """A distribution over words at each token, without its [B, L, V] logits."""

    x: tf.Tensor
    table: tf.Tensor
    bias: tf.Tensor
    log_z: tf.Tensor
    best: tf.Tensor

    def log_probs(self, ids: tf.Tensor) -> tf.Tensor:
        """Computes each token's log-probability: ids [B, L] -> [B, L]."""
        logits = tf.reduce_sum(self.x * tf.gather(self.table, ids), -1)
        logits += tf.gather(self.bias, ids)
        return logits - self.log_z


class GeneratorPredictions(Projection):
    """Scores every word at some positions: x [B, N, H] -> [B, N, V].

    The states of two towers have width 2H.
    """

    def __init__(
        self,
        config: BertConfig,
        name: str = "generator_predictions",
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(
            config.embedding_size, config.initializer_range, name, dtype
        )
        self.vocab_size = config.vocab_size

    def build(self, input_shape: layers.Shape) -> None:
        super().build(input_shape)
        self.output_bias = self.add_weight(
            (self.vocab_size,), "zeros", name="output_bias", autocast=False
        )

    def call(self, x: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
        x = self.project(x)  # [B, N, E]
        return tensor_ops.linear(
            x, tf.transpose(table), self.output_bias, self.compute_dtype
        )

    def distribution(
        self, x: tf.Tensor, table: tf.Tensor, is_wanted: tf.Tensor
    ) -> TokenDistribution:
        """Computes the distribution at the wanted tokens: x [B, L, H]."""
        x, table = self.project(x), tf.convert_to_tensor(table)
        bias = tf.convert_to_tensor(self.output_bias)
        log_z, best = vocabulary_softmax.log_partition(
            x, table, bias, is_wanted=is_wanted
        )
        return TokenDistribution(x, table, bias, log_z, best)


class DiscriminatorPredictions(keras.layers.Layer):
    """Scores each token, [B, L, H] -> [B, L]: over 0 means "replaced".

    Differs: the paper's D is the probability that a token is real; the sign
    here is that of the original's code and checkpoints.
    """

    def __init__(
        self,
        config: BertConfig,
        name: str = "discriminator_predictions",
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.dense = layers.Linear(
            config.hidden_size,
            config.initializer_range,
            name="dense",
            dtype=self.dtype_policy,
        )
        # In float32, as logits are ranked; it costs nothing.
        self.dense_1 = layers.Linear(1, None, name="dense_1", dtype="float32")

    def build(self, input_shape: layers.Shape) -> None:
        self.dense.build(input_shape)
        self.dense_1.build(input_shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        hidden = tensor_ops.gelu(self.dense(x))  # [B, L, H]
        return tf.squeeze(self.dense_1(hidden), -1)  # [B, L]


class SelectionPredictions(Projection):
    """Scores K words at each position, and "neither": -> [B, N, K or 1 + K]."""

    def __init__(
        self,
        config: BertConfig,
        *,
        has_neither: bool,
        name: str = "selection_predictions",
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(
            config.embedding_size, config.initializer_range, name, dtype
        )
        self.has_neither = has_neither

    def build(self, input_shape: layers.Shape) -> None:
        super().build(input_shape)
        if self.has_neither:
            self.neither = self.add_weight(
                shape=(self.width, 1),
                initializer=layers.initializer(self.initializer_range),
                name="neither",
            )

    def call(
        self, x: tf.Tensor, words: tf.Tensor, table: tf.Tensor
    ) -> tf.Tensor:
        x = self.project(x)  # [B, N, E]
        rows = tf.gather(table, words)  # [B, N, K, E]
        scores = tf.linalg.matvec(rows, x)  # [B, N, K]
        if not self.has_neither:
            return scores
        neither = tensor_ops.linear(x, self.neither, tf.zeros([1]))
        return tf.concat([neither, scores], -1)
