"""The configuration of optimizers; needs no TensorFlow.

Names are the original's wherever it has them. Defaults of fine-tuning are the
paper's, Table 7, which differ from the original's where said.
"""

import dataclasses
from typing import NamedTuple

from electra_tf.util.config_fields import Checked, bounded, one_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamConfig(Checked):
    """Adam, its clip and the decay of its learning rate."""

    lr_decay_power: float = bounded("at least 0", 1.0)
    """Power of the polynomial decay to 0; 1 is linear."""

    adam_beta1: float = bounded("in [0, 1)", 0.9)
    """Decay rate of Adam's first moment, per update."""

    adam_beta2: float = bounded("in [0, 1)", 0.999)
    """Decay rate of Adam's second moment, per update."""

    adam_epsilon: float = bounded("positive", 1e-6)
    """Added to the root of the second moment."""

    clip_norm: float = bounded("positive", 1.0)
    """Global norm to which a longer gradient is clipped."""

    original_clip_norm: bool = False
    """Compute the norm of the gradient of a word table that is only looked up,
    not tied to an output, over the rows of the batch before they are summed,
    as the original does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig(AdamConfig):
    """Pre-training: decoupled weight decay, and a learning rate."""

    learning_rate: float = bounded("positive", 5e-4)
    """Peak of the learning rate."""

    generator_learning_rate: float | None = bounded("positive", None)
    """Peak learning rate of the generator; same schedule. Weights that it
    shares learn at the discriminator's. Default: `learning_rate`."""

    weight_decay_rate: float = bounded("at least 0", 0.01)
    """Decoupled weight decay, as a factor of the learning rate; biases and
    layer normalization do not decay."""

    num_warmup_steps: int = bounded("at least 0", 10_000)
    """Updates of linear warm-up of the learning rate from 0; 0 for none."""

    original_lr_step: bool = False
    """Take the learning rate of the next update: the original reads its step
    while it counts it, and mostly gets the new one."""


class Rates(NamedTuple):
    """Rates for a size of the encoder.

    Attributes:
      learning_rate: peak, of the head.
      layerwise_lr_decay: see `FinetuningOptimizerConfig`.
    """

    learning_rate: float
    layerwise_lr_decay: float


RATES = {
    "tiny": Rates(1e-3, 0.8),
    "small": Rates(3e-4, 0.8),
    "base": Rates(1e-4, 0.8),
    "large": Rates(5e-5, 0.9),
}
"""The paper's Table 7, and "tiny": what encoders that are narrower than its
Small, 256, learnt SST-2 and chunking with (docs/finetuning.md)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningOptimizerConfig(AdamConfig):
    """Fine-tuning: a learning rate for each depth."""

    model_size: str = one_of("auto", *RATES)
    """Whose rates to take; auto by the width of the encoder: tiny below 256,
    small below 768, base below 1024, else large."""

    learning_rate: float | None = bounded("positive", None)
    """Peak of the learning rate, of the head. Default: 1e-3, 3e-4, 1e-4 or
    5e-5, by `model_size`; the original has 1e-4 for small."""

    layerwise_lr_decay: float | None = bounded("in (0, 1]", None)
    """Share of the rate of the layer above that a layer has. Default: 0.8;
    0.9 for large."""

    original_lr_layer_decays: bool = False
    """Leave a gap of one depth below the head, as the original does."""

    weight_decay_rate: float = bounded("at least 0", 0.0)
    """Decay of weights, in units of the learning rate; the original has
    0.01."""

    warmup_proportion: float = bounded("in [0, 1]", 0.1)
    """Share of the updates in which the learning rate rises from 0."""

    loss_reduction: str = one_of("sum", "mean")
    """Loss whose gradient is taken: the sum over the batch, as the original's,
    which the clip nearly always cuts, or the mean."""

    def rates(self, hidden_size: int) -> Rates:
        """Returns what is given, or `RATES` for a width of the encoder."""
        widths = {256: "tiny", 768: "small", 1024: "base"}
        wider = (size for width, size in widths.items() if hidden_size < width)
        size = self.model_size
        default = RATES[next(wider, "large") if size == "auto" else size]
        return Rates(
            self.learning_rate or default.learning_rate,
            self.layerwise_lr_decay or default.layerwise_lr_decay,
        )
