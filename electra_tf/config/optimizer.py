"""The configuration of optimizers; needs no TensorFlow.

Names are the original's wherever it has them. Defaults of fine-tuning are those
of the paper's Table 7; where the original's differ, the field says so.
"""

import dataclasses
from typing import NamedTuple

from electra_tf.util.config_fields import Checked, bounded, one_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamConfig(Checked):
    """Adam, gradient clipping and the decay of the learning rate."""

    lr_decay_power: float = bounded("at least 0", 1.0)
    """Power of the polynomial decay of the learning rate to 0; 1 is linear, 0
    is no decay."""

    adam_beta1: float = bounded("in [0, 1)", 0.9)
    """Decay rate of Adam's first moment, per update."""

    adam_beta2: float = bounded("in [0, 1)", 0.999)
    """Decay rate of Adam's second moment, per update."""

    adam_epsilon: float = bounded("positive", 1e-6)
    """Added to the square root of the second moment."""

    clip_norm: float = bounded("positive", 1.0)
    """Maximum global norm of the gradient; longer gradients are scaled to
    it."""

    original_clip_norm: bool = False
    """For word embeddings that are not tied to an output layer, compute the
    gradient's norm over the looked-up rows, before rows of the same word are
    summed, as the original does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig(AdamConfig):
    """Pre-training: decoupled weight decay, and a learning rate."""

    learning_rate: float = bounded("positive", 5e-4)
    """Peak learning rate."""

    generator_learning_rate: float | None = bounded("positive", None)
    """Peak learning rate of the generator; same schedule. Shared weights use
    the discriminator's rate. Default: `learning_rate`."""

    weight_decay_rate: float = bounded("at least 0", 0.01)
    """Decoupled weight decay, multiplied by the learning rate; biases and layer
    normalization are not decayed."""

    num_warmup_steps: int = bounded("at least 0", 10_000)
    """Updates in which the learning rate rises linearly from 0; 0 for no
    warm-up."""

    original_lr_step: bool = False
    """Use the learning rate of the next update, as the original mostly does: it
    reads the step while another operation increments it."""


class Rates(NamedTuple):
    """Fine-tuning learning rates for a size of the encoder.

    Attributes:
      learning_rate: peak learning rate of the head.
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
"""The paper's Table 7; "tiny", for encoders narrower than its Small (256), was
tuned on SST-2 and chunking."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningOptimizerConfig(AdamConfig):
    """Fine-tuning: a learning rate for each layer."""

    model_size: str = one_of("auto", *RATES)
    """Model size whose default rates are used; auto chooses by the width of the
    encoder: tiny below 256, small below 768, base below 1024, else large."""

    learning_rate: float | None = bounded("positive", None)
    """Peak learning rate of the head. Default: 1e-3 (tiny), 3e-4 (small), 1e-4
    (base) or 5e-5 (large); the original has 1e-4 for small."""

    layerwise_lr_decay: float | None = bounded("in (0, 1]", None)
    """Learning rate of a layer as a fraction of that of the layer above.
    Default: 0.8; 0.9 for large."""

    original_lr_layer_decays: bool = False
    """Apply the layerwise decay twice between the head and the top layer, as
    the original does."""

    weight_decay_rate: float = bounded("at least 0", 0.0)
    """Decoupled weight decay, multiplied by the learning rate; the original has
    0.01."""

    warmup_proportion: float = bounded("in [0, 1]", 0.1)
    """Share of the updates in which the learning rate rises from 0."""

    loss_reduction: str = one_of("sum", "mean")
    """Reduction of the loss over the batch: the sum, as in the original, whose
    gradient is nearly always clipped, or the mean."""

    def rates(self, hidden_size: int) -> Rates:
        """Returns the given rates; defaults depend on the encoder's width."""
        widths = {256: "tiny", 768: "small", 1024: "base"}
        wider = (size for width, size in widths.items() if hidden_size < width)
        size = self.model_size
        default = RATES[next(wider, "large") if size == "auto" else size]
        return Rates(
            self.learning_rate or default.learning_rate,
            self.layerwise_lr_decay or default.layerwise_lr_decay,
        )
