"""ELECTRA 15 %: the discriminator learns from the chosen positions only.

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + disc_weight * mean over chosen tokens of BCE(D(corrupted x)_t, y_t)

All else is ELECTRA: the same passes, the same samples, the same order. Only the
signal from the 85 % of tokens that were not chosen is lost. `disc_auc` and the
other metrics of the discriminator are also over the chosen positions only.

Source: paper section 3.4, table 5 ("ELECTRA 15%").
"""

import tensorflow as tf

from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked


class Electra15(Electra):
    """Trains a discriminator on the positions a masked LM learns from."""

    generator_types = ("transformer", "uniform", "unigram")

    def _judged(self, inputs: Inputs, masked: Masked) -> tf.Tensor:
        """Returns float32 [B, L]: 1 at chosen positions, each counted once."""
        return tf.cast(pretrain_helpers.chosen_mask(masked), tf.float32)
