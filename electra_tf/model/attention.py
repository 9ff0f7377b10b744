"""Multi-head self-attention, with the original's variables and its mask.

The documents of a packed row are numbered 1, 2, ... from left to right; padding
has 0. So a row of one document has the mask of BERT. Tokens attend to their own
document alone.

Differs: neither the paper nor the original packs rows.

Source of packing: Krell et al., 2021, "Efficient Sequence Packing without
Cross-contamination", section 3.2.
"""

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import layers, tensor_ops
from electra_tf.util import seeds

_MASKED = -10000.0  # added to masked scores, as in the original


def attention_bias(
    input_mask: tf.Tensor, direction: str = "both", *, is_packed: bool = False
) -> tf.Tensor:
    """Makes the additive attention mask: [B, L] -> [B, 1, 1 or L, L]."""
    if is_packed:
        is_read = share_document(input_mask)
    else:
        is_read = tf.expand_dims(input_mask, 1) > 0  # [B, 1, L]
    # TFLite has no slices that add axes.
    is_read = tf.expand_dims(is_read, 1)  # [B, 1, 1 or L, L]
    is_read = tf.cast(is_read, tf.float32)
    if direction != "both":
        length = tensor_ops.shape_of(input_mask)[1]
        below, above = (-1, 0) if direction == "left_to_right" else (0, -1)
        every = tf.ones([length, length])
        is_read *= tf.linalg.band_part(every, below, above)  # [B, 1, L, L]
    return (1.0 - is_read) * _MASKED


def share_document(numbers: tf.Tensor) -> tf.Tensor:
    """Tells which tokens share a document: numbers [B, L] -> [B, L, L]."""
    read = tf.expand_dims(numbers, 1)  # [B, 1, L]
    is_same = tf.expand_dims(numbers, 2) == read
    return tf.logical_and(is_same, read > 0)


def positions(numbers: tf.Tensor) -> tf.Tensor:
    """Returns the position of each token in its document: [B, L] -> [B, L]."""
    is_same = tf.cast(share_document(numbers), tf.int32)
    so_far = tf.reduce_sum(tf.linalg.band_part(is_same, -1, 0), -1)
    return tf.maximum(so_far - 1, 0)


def shift_within_documents(
    states: tf.Tensor, numbers: tf.Tensor, shift: int
) -> tf.Tensor:
    """Shifts states [B, L, H] along the row, but not into another document."""
    is_same = tf.roll(numbers, shift, axis=1) == numbers
    moved = tf.roll(states, shift, axis=1)
    return tf.where(is_same[..., tf.newaxis], moved, 0.0)


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention, softmax(Q K' / sqrt(d)) V: [B, L, H]."""

    def __init__(
        self,
        config: BertConfig,
        name: str = "attention",
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.query, self.key, self.value, self.dense = (
            layers.Linear(
                config.hidden_size,
                config.initializer_range,
                name=name,
                dtype=self.dtype_policy,
            )
            for name in ("query", "key", "value", "dense")
        )

    def build(self, input_shape: layers.Shape) -> None:
        with keras.name_scope("self"):
            for layer in (self.query, self.key, self.value):
                layer.build(input_shape)
        with keras.name_scope("output"):
            self.dense.build(input_shape)

    def call(
        self, x: tf.Tensor, bias: tf.Tensor, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        query, key, value = self._project(x)  # [B, A, L, d]
        keys = seeds.fold_in(keys, 0)
        weights = self._weights(query, key, bias, keys)  # [B, A, L, L]
        context = tf.transpose(weights @ value, [0, 2, 1, 3])  # [B, L, A, d]
        return tf.reshape(context, tensor_ops.shape_of(x))

    def probabilities(self, x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        """Returns the attention weights of each head, [B, A, L, L]."""
        query, key, _ = self._project(x)
        return tf.cast(self._weights(query, key, bias, None), x.dtype)

    def _weights(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        bias: tf.Tensor,
        keys: tf.Tensor | None,
    ) -> tf.Tensor:
        scale = query.shape[-1] ** -0.5
        scores = tf.matmul(query, key, transpose_b=True)  # [B, A, L, L]
        return tensor_ops.attention_weights(
            scores,
            bias,
            scale=scale,
            rate=self.config.attention_probs_dropout_prob,
            keys=keys,
        )

    def _project(self, x: tf.Tensor) -> list[tf.Tensor]:
        """Returns query, key and value, each [B, A, L, d]."""
        parts = (self.query, self.key, self.value)
        kernel = tf.concat([part.kernel for part in parts], 1)  # [H, 3H]
        bias = tf.concat([part.bias for part in parts], 0)  # [3H]
        batch, length, width = tensor_ops.shape_of(x)
        heads = self.config.num_attention_heads
        y = tensor_ops.product(x, kernel, self.compute_dtype)  # [B * L, 3H]
        y = tensor_ops.add_bias(y, bias, y.dtype)
        y = tf.reshape(y, [batch, length, 3, heads, width // heads])
        return tf.unstack(tf.transpose(y, [2, 0, 3, 1, 4]))  # 3 [B, A, L, d]
