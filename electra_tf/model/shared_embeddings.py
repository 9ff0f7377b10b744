"""Gradient-disentangled sharing of embeddings.

The generator alone trains its tables; the discriminator reads them and trains
differences that it adds (`generator_sharing=gradient_disentangled`).

Source: He et al., 2021, "DeBERTaV3", section 3.3.
"""

import tensorflow as tf

from electra_tf.config.model import DIFFERENCE, TABLES, BertConfig
from electra_tf.model.modeling import Embeddings


class DisentangledEmbeddings(Embeddings):
    """Another encoder's tables, constant, plus differences from 0."""

    def __init__(self, config: BertConfig, base: Embeddings) -> None:
        super().__init__(config)
        self.is_shared = True
        # As an attribute, the base would be a sublayer, and its weights would
        # count as this layer's, too.
        self._base = lambda: base

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.differences = {
            table: self.add_weight(
                shape=getattr(self._base(), table).shape,
                initializer="zeros",
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

    @property
    def word_embeddings(self) -> tf.Tensor:
        """The sum, float32 [V, E]."""
        return self._sum("word_embeddings")

    @property
    def token_type_embeddings(self) -> tf.Tensor:
        """The sum, float32 [segments, E]."""
        return self._sum("token_type_embeddings")

    @property
    def position_embeddings(self) -> tf.Tensor:
        """The sum, float32 [positions, E]."""
        return self._sum("position_embeddings")

    def _sum(self, table: str) -> tf.Tensor:
        base = tf.convert_to_tensor(getattr(self._base(), table))
        difference = tf.convert_to_tensor(self.differences[table])
        return tf.stop_gradient(base) + difference
