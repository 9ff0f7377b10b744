"""The configuration of pre-training's optimizer; needs no TensorFlow."""

import dataclasses
import math

from electra_tf.util.config_fields import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Adam with decoupled weight decay, and its learning rate."""

    learning_rate: float = 5e-4
    """Peak of the learning rate."""

    generator_learning_rate: float | None = None
    """Peak learning rate of the generator; same schedule. Weights that it
    shares learn at the discriminator's. Default: `learning_rate`."""

    lr_decay_power: float = 1.0
    """Power of the polynomial decay to 0; 1 is linear."""

    weight_decay_rate: float = 0.01
    """Decoupled weight decay, as a factor of the learning rate; biases and
    layer normalization do not decay."""

    num_warmup_steps: int = 10_000
    """Updates of linear warm-up of the learning rate from 0; 0 for none."""

    adam_beta1: float = 0.9
    """Decay rate of Adam's first moment, per update."""

    adam_beta2: float = 0.999
    """Decay rate of Adam's second moment, per update."""

    adam_epsilon: float = 1e-6
    """Added to the root of the second moment."""

    clip_norm: float = 1.0
    """Global norm to which a longer gradient is clipped."""

    original_clip_norm: bool = False
    """Compute the norm of the gradient of a word table that is only looked up,
    not tied to an output, over the rows of the batch before they are summed,
    as the original does."""

    original_lr_step: bool = False
    """Take the learning rate of the next update: the original reads its step
    while it counts it, and mostly gets the new one."""

    def __post_init__(self) -> None:
        positive = (
            "learning_rate generator_learning_rate adam_epsilon clip_norm"
        )
        others = "lr_decay_power weight_decay_rate num_warmup_steps"
        betas = "adam_beta1 adam_beta2"
        require(self, positive, "positive", lambda x: 0 < x < math.inf)
        require(self, others, "at least 0", lambda x: 0 <= x < math.inf)
        require(self, betas, "in [0, 1)", lambda x: 0 <= x < 1)
