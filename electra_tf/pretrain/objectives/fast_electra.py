"""Fast-ELECTRA: a pre-trained generator whose samples become harder over time.

    loss = disc_weight * mean over real tokens of BCE(D(corrupted x)_t, y_t)

The generator's weights come from `generator_checkpoint` and stay as they are:
it costs no backward pass, no gradients and no slots of Adam, and its samples no
longer depend on how the discriminator is trained. In joint training the samples
are easy at first; here the temperature makes them so:

    T(u) = T + (T_0 - T) exp(-u / tau)

with u the share of all updates that are done, T_0 = 2, tau = 0.1 and T
`temperature`, nearly reached at the end. The generator samples without dropout;
its loss is still reported.

A generator with embeddings of another width needs --generator_sharing=none; one
that was trained together with a discriminator, gradient_disentangled.

Differs: the paper's form of T(u) has T = 1; the defaults of T_0 and tau were
not checked against its text. There the corruption can be computed beforehand;
here it is computed during training, forward only.

Source: Dong et al., 2023, "Fast-ELECTRA for Efficient Pre-training".
"""

import math

import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.random_keys import RandomKeys, progress
from electra_tf.util.errors import UserError

_START, _DECAY_TIME = 2.0, 0.1  # T_0 and tau


class FastElectra(Electra):
    """Trains a discriminator on the samples of a frozen generator."""

    generator_types = ("transformer",)

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        super().check(config)
        end = config.objective.temperature_end
        if end not in (None, config.objective.temperature):
            raise UserError(f"fast_electra has no temperature_end={end}.")

    @classmethod
    def is_frozen(cls, config: PretrainingConfig) -> bool:
        return True

    def temperature(self, keys: RandomKeys) -> tf.Tensor:
        """Returns T(u), float32 [B, 1], or [1, 1] after the training."""
        last = self.config.objective.temperature
        left = math.exp(-1 / _DECAY_TIME) ** progress(keys)
        return last + (_START - last) * left
