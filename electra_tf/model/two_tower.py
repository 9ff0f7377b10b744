"""A two-tower generator: two encoders, one for each direction.

Token t is predicted from the left-to-right tower's state at t - 1 and the
right-to-left tower's at t + 1: each token of a clean text from all others in
one pass, without masks. As in the original, states roll around the ends of a
row, where nothing is predicted. Differs: in rows of several documents, states
of a neighbouring document are replaced by zeros.

Source: Clark et al., 2020 (Electric), section 2.3; the original's
run_pretraining.py.
"""

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import layers
from electra_tf.model.modeling import BertModel, Embeddings
from electra_tf.util import seeds

TOWERS = {"generator_ltr": "left_to_right", "generator_rtl": "right_to_left"}
"""The original's name of each tower -> its direction."""


class TwoTowerModel(keras.layers.Layer):
    """Two encoders that read clean text from left and right: [B, L, 2H]."""

    def __init__(
        self,
        config: BertConfig,
        embeddings: Embeddings | None = None,
        name: str = "generator",
        *,
        is_packed: bool = False,
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.is_packed = is_packed
        self.towers = [
            BertModel(
                config,
                tower,
                embeddings,
                direction=direction,
                is_packed=is_packed,
                dtype=self.dtype_policy,
            )
            for tower, direction in TOWERS.items()
        ]
        for tower in self.towers:
            tower.build((None, None))
        self.built = True

    @property
    def word_embeddings(self) -> tf.Tensor:
        """The table for the output softmax, float32 [V, E]."""
        return tf.convert_to_tensor(self.towers[0].embeddings.word_embeddings)

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        keys: tf.Tensor | None = None,
    ) -> tf.Tensor:
        before, after = (
            tower(
                input_ids, input_mask, segment_ids, seeds.fold_in(keys, i)
            ).sequence_output
            for i, tower in enumerate(self.towers)
        )
        before = self._shifted(before, 1, input_mask)
        after = self._shifted(after, -1, input_mask)
        return tf.concat([before, after], -1)

    def _shifted(
        self, states: tf.Tensor, shift: int, numbers: tf.Tensor
    ) -> tf.Tensor:
        """Shifts states [B, L, H] along the row, not into other documents."""
        moved = tf.roll(states, shift, axis=1)
        if not self.is_packed:
            return moved
        is_same = tf.roll(numbers, shift, axis=1) == numbers
        return tf.where(is_same[..., tf.newaxis], moved, 0.0)
