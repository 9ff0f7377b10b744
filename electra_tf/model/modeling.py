"""The encoder: embeddings, then Transformer blocks as in BERT.

The documents of a packed row are numbered 1, 2, ... in `input_mask`; padding
has 0. Tokens attend to their own document alone. Differs: neither the paper nor
the original packs rows.

Letters in shapes: B rows, L tokens in a row, A heads, d width of a head, E
embedding, H hidden, F feed-forward, V vocabulary.

Source: the original's model/modeling.py; variable paths are its names. Krell
et al., 2021, "Efficient Sequence Packing without Cross-contamination".
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config.model import DIFFERENCE, TABLES, BertConfig
from electra_tf.model import layers, neighbour_attention, tensor_ops
from electra_tf.util import seeds

_MASKED = -10000.0  # added to masked scores, as in the original


class EncoderOutput(NamedTuple):
    """States [B, L, H] of an encoder; `pooled_output` [B, H] is [CLS]'s."""

    sequence_output: tf.Tensor
    pooled_output: tf.Tensor
    all_layers: list[tf.Tensor]
    embedding_output: tf.Tensor


class Embeddings(keras.layers.Layer):
    """Sums word, position and segment vectors, then normalizes, in float32.

    Words [V, E], and positions too, may be another encoder's tables.
    """

    def __init__(
        self,
        config: BertConfig,
        words: keras.Variable | None = None,
        positions: keras.Variable | None = None,
    ) -> None:
        super().__init__(name="embeddings", dtype="float32")
        self.config = config
        self.is_shared = words is not None
        self._words, self._positions = words, positions
        self.layer_norm = layers.LayerNorm(name="LayerNorm")

    def build(self, input_shape: layers.Shape) -> None:
        config = self.config
        for name, table, num_rows, initializer in (
            ("word_embeddings", self._words, config.vocab_size, None),
            ("token_type_embeddings", None, config.type_vocab_size, None),
            (
                "position_embeddings",
                self._positions,
                config.max_position_embeddings,
                neighbour_attention.position_initializer(config),
            ),
        ):
            if table is None:
                table = self.add_weight(
                    shape=(num_rows, config.embedding_size),
                    initializer=initializer
                    or layers.initializer(config.initializer_range),
                    name=name,
                    autocast=False,
                )
            setattr(self, name, table)
        self.layer_norm.build((*input_shape, config.embedding_size))

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        word_offsets: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
    ) -> tf.Tensor:
        length = tensor_ops.shape_of(input_ids)[1]
        words = self.words(input_ids)
        if word_offsets is not None:
            words += word_offsets
        types = tf.convert_to_tensor(self.token_type_embeddings)
        if self.config.type_vocab_size > 1:  # else segment 0 everywhere
            types = tf.gather(types, segment_ids)
        if positions is None:
            places = self.position_embeddings[:length]  # [L, E]
        else:
            table = tf.convert_to_tensor(self.position_embeddings)
            places = tf.gather(table, positions)  # [B, L, E]
        return self.layer_norm(words + types + places)  # [B, L, E]

    def words(self, input_ids: tf.Tensor) -> tf.Tensor:
        """Looks up word embeddings: input_ids [B, L] -> [B, L, E]."""
        return tf.gather(tf.convert_to_tensor(self.word_embeddings), input_ids)


def _sum_of(table: str) -> property:
    """Makes a property: the base's table, constant, plus its difference."""

    def summed(embeddings: "DisentangledEmbeddings") -> tf.Tensor:
        base = tf.convert_to_tensor(getattr(embeddings._base(), table))
        difference = tf.convert_to_tensor(embeddings.differences[table])
        return tf.stop_gradient(base) + difference

    return property(summed)


class DisentangledEmbeddings(Embeddings):
    """Another encoder's tables, constant, plus differences from 0.

    Source: He et al., 2021, "DeBERTaV3", section 3.3.
    """

    word_embeddings = _sum_of("word_embeddings")
    token_type_embeddings = _sum_of("token_type_embeddings")
    position_embeddings = _sum_of("position_embeddings")

    def __init__(self, config: BertConfig, base: Embeddings) -> None:
        super().__init__(config)
        self.is_shared = True
        # As an attribute, the base would be a sublayer, and its weights would
        # count as this layer's, too.
        self._base = lambda: base

    def build(self, input_shape: layers.Shape) -> None:
        self.differences = {
            table: self.add_weight(
                getattr(self._base(), table).shape,
                "zeros",
                name=f"{table}{DIFFERENCE}",
            )
            for table in TABLES
        }
        self.layer_norm.build((*input_shape, self.config.embedding_size))

    def words(self, input_ids: tf.Tensor) -> tf.Tensor:
        # Two lookups instead of one in the sum keep the gradient sparse: rows
        # that are not read get none, not even zeros.
        base = tf.stop_gradient(self._base().words(input_ids))
        own = tf.convert_to_tensor(self.differences["word_embeddings"])
        return base + tf.gather(own, input_ids)


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention, softmax(Q K' / sqrt(d)) V: [B, L, H]."""

    def __init__(self, config: BertConfig, dtype: layers.Policy = None) -> None:
        super().__init__(name="attention", dtype=dtype, autocast=False)
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
        keys = seeds.fold_in(keys, 0)
        weights, value = self.attend(x, bias, keys)
        context = tf.transpose(weights @ value, [0, 2, 1, 3])  # [B, L, A, d]
        return tf.reshape(context, tensor_ops.shape_of(x))

    def attend(
        self, x: tf.Tensor, bias: tf.Tensor, keys: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns weights [B, A, L, L] and values [B, A, L, d]."""
        parts = (self.query, self.key, self.value)
        kernel = tf.concat([part.kernel for part in parts], 1)  # [H, 3H]
        offset = tf.concat([part.bias for part in parts], 0)  # [3H]
        batch, length, width = tensor_ops.shape_of(x)
        heads = self.config.num_attention_heads
        y = tensor_ops.product(x, kernel, self.compute_dtype)  # [B * L, 3H]
        y = tensor_ops.add_bias(y, offset, y.dtype)
        y = tf.reshape(y, [batch, length, 3, heads, width // heads])
        y = tf.transpose(y, [2, 0, 3, 1, 4])  # [3, B, A, L, d]
        query, key, value = tf.unstack(y)
        weights = tensor_ops.attention_weights(
            tf.matmul(query, key, transpose_b=True),  # [B, A, L, L]
            bias,
            scale=query.shape[-1] ** -0.5,
            rate=self.config.attention_probs_dropout_prob,
            keys=keys,
        )
        return weights, value


class TransformerBlock(keras.layers.Layer):
    """Attention, then feed-forward, each with residual and post-LayerNorm."""

    def __init__(
        self, config: BertConfig, name: str, dtype: layers.Policy = None
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.recompute = False
        policy, scale = self.dtype_policy, config.initializer_range
        self.attention = SelfAttention(config, policy)
        self.attention_norm = layers.LayerNorm()
        self.intermediate = layers.Linear(
            config.intermediate_size, scale, name="dense", dtype=policy
        )
        self.dense = layers.Linear(
            config.hidden_size, scale, name="dense", dtype=policy
        )
        self.output_norm = layers.LayerNorm()

    def build(self, input_shape: layers.Shape) -> None:
        self.attention.build(input_shape)
        with keras.name_scope("attention"), keras.name_scope("output"):
            self.attention_norm.build(input_shape)
        with keras.name_scope("intermediate"):
            self.intermediate.build(input_shape)
        with keras.name_scope("output"):
            self.dense.build((*input_shape[:-1], self.config.intermediate_size))
            self.output_norm.build(input_shape)

    def __call__(
        self, x: tf.Tensor, bias: tf.Tensor, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        call = super().__call__
        if not self.recompute or keys is None:
            return call(x, bias, keys)
        return tensor_ops.recompute(call, self.weights, x, bias, keys)

    def call(
        self, x: tf.Tensor, bias: tf.Tensor, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        middle_keys, output_keys = (seeds.fold_in(keys, i) for i in (1, 2))
        context = self.attention(x, bias, keys)  # [B, L, H]
        x = self._add_and_norm(
            x, context, self.attention.dense, self.attention_norm, middle_keys
        )
        hidden = tensor_ops.add_and_gelu(
            self.intermediate.product(x), self.intermediate.bias
        )  # [B * L, F]
        return self._add_and_norm(
            x, hidden, self.dense, self.output_norm, output_keys
        )  # [B, L, H]

    def _add_and_norm(
        self,
        x: tf.Tensor,
        y: tf.Tensor,
        dense: layers.Linear,
        norm: layers.LayerNorm,
        keys: tf.Tensor | None,
    ) -> tf.Tensor:
        """Computes norm(x + dropout(dense(y)))."""
        return tensor_ops.add_and_norm(
            x,
            dense.product(y),
            dense.bias,
            norm.gamma,
            norm.beta,
            epsilon=norm.epsilon,
            rate=self.config.hidden_dropout_prob,
            keys=keys,
        )


class BertModel(keras.layers.Layer):
    """The encoder of ELECTRA's discriminator, and of its generator.

    Shapes: input_ids [B, L], input_mask [B, L], segment_ids [B, L], keys [B],
      word_offsets [B, L, E].
    """

    def __init__(
        self,
        config: BertConfig,
        name: str = "electra",
        embeddings: Embeddings | None = None,
        *,
        direction: str = "both",
        is_packed: bool = False,
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.direction = direction
        self.is_packed = is_packed
        self.shift_below = 0
        self.embeddings = embeddings or Embeddings(config)
        self.embeddings_project = None
        if config.embedding_size != config.hidden_size:
            self.embeddings_project = layers.Linear(
                config.hidden_size,
                None,
                name="embeddings_project",
                dtype=self.dtype_policy,
            )
        self.blocks = [
            TransformerBlock(config, f"layer_{i}", self.dtype_policy)
            for i in range(config.num_hidden_layers)
        ]

    def build(self, input_shape: layers.Shape) -> None:
        if not self.embeddings.built:
            self.embeddings.build(input_shape)
        if self.embeddings_project is not None:
            self.embeddings_project.build(
                (*input_shape, self.config.embedding_size)
            )
        with keras.name_scope("encoder"):
            for block in self.blocks:
                block.build((*input_shape, self.config.hidden_size))
        self.initialize_attention(self.blocks)

    def initialize_attention(self, blocks: Sequence[TransformerBlock]) -> None:
        """Initializes query and key kernels as `attention_initializer` says."""
        if self.config.attention_initializer != "neighbours":
            return
        project = self.embeddings_project
        for block in blocks:
            query, key = block.attention.query, block.attention.key
            kernels = neighbour_attention.query_and_key(
                key.kernel.numpy(),
                self.config.num_attention_heads,
                None if project is None else project.kernel.numpy(),
                num_positions=self.config.max_position_embeddings,
                direction=self.direction,
            )
            query.kernel.assign(kernels[0])
            key.kernel.assign(kernels[1])

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        keys: tf.Tensor | None = None,
        word_offsets: tf.Tensor | None = None,
    ) -> EncoderOutput:
        bias = self.bias(input_mask)
        positions = self._positions(input_mask, keys)
        x = self.embeddings(input_ids, segment_ids, word_offsets, positions)
        x = tensor_ops.dropout(
            x, self.config.hidden_dropout_prob, seeds.fold_in(keys, 0)
        )  # [B, L, E]
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)  # [B, L, H]
        states = [x]
        for i, block in enumerate(self.blocks):
            states.append(block(states[-1], bias, seeds.fold_in(keys, i + 1)))
        return EncoderOutput(
            sequence_output=states[-1],
            pooled_output=states[-1][:, 0],
            all_layers=states[1:],
            embedding_output=x,
        )

    def _positions(
        self, input_mask: tf.Tensor, keys: tf.Tensor | None
    ) -> tf.Tensor | None:
        """Returns int32 [B, L]; None if all rows are 0, 1, ..., L - 1."""
        length, found = tensor_ops.shape_of(input_mask)[1], None
        if self.is_packed:
            found = positions_in_documents(input_mask)
        if self.shift_below == 0 or keys is None:
            return found
        num_starts = 1 + tf.maximum(self.shift_below - length, 0)
        keys = seeds.fold_in(keys, len(self.blocks) + 1)
        starts = seeds.uniform(keys, (1,)) * tf.cast(num_starts, tf.float32)
        starts = tf.cast(starts, tf.int32)  # [B, 1]
        return starts + (tf.range(length) if found is None else found)

    def bias(self, input_mask: tf.Tensor) -> tf.Tensor:
        """Makes the additive attention mask: [B, L] -> [B, 1, 1 or L, L]."""
        if self.is_packed:
            is_read = share_document(input_mask)
        else:
            is_read = tf.expand_dims(input_mask, 1) > 0  # [B, 1, L]
        # TFLite has no slices that add axes.
        is_read = tf.expand_dims(is_read, 1)  # [B, 1, 1 or L, L]
        is_read = tf.cast(is_read, tf.float32)
        if self.direction != "both":
            length = tensor_ops.shape_of(input_mask)[1]
            is_forward = self.direction == "left_to_right"
            below, above = (-1, 0) if is_forward else (0, -1)
            every = tf.ones([length, length])
            is_read *= tf.linalg.band_part(every, below, above)  # [B, 1, L, L]
        return (1.0 - is_read) * _MASKED


def share_document(numbers: tf.Tensor) -> tf.Tensor:
    """Tells which tokens share a document: numbers [B, L] -> [B, L, L]."""
    read = tf.expand_dims(numbers, 1)  # [B, 1, L]
    is_same = tf.expand_dims(numbers, 2) == read
    return tf.logical_and(is_same, read > 0)


def positions_in_documents(numbers: tf.Tensor) -> tf.Tensor:
    """Returns the position of each token in its document: [B, L] -> [B, L]."""
    is_same = tf.cast(share_document(numbers), tf.int32)
    so_far = tf.reduce_sum(tf.linalg.band_part(is_same, -1, 0), -1)
    return tf.maximum(so_far - 1, 0)


def recompute_blocks(model: keras.layers.Layer) -> None:
    """Makes all Transformer blocks keep only their inputs in training."""
    for layer in model._flatten_layers():
        if isinstance(layer, TransformerBlock):
            layer.recompute = True


def shift_positions(model: keras.layers.Layer, length: int) -> None:
    """Makes the encoders shift rows that are shorter than `length` in training.

    Source: Kiyono et al., 2021, "SHAPE: Shifted Absolute Position Embedding for
    Transformers".
    """
    for layer in model._flatten_layers():
        if isinstance(layer, BertModel):
            layer.shift_below = length
