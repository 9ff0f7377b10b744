"""The configuration of pre-training's optimizer; needs no TensorFlow."""

import dataclasses

from electra_tf.util.config_fields import Checked, bounded


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Checked):
    """Adam with decoupled weight decay, and its learning rate."""

    learning_rate: float = bounded("positive", 5e-4)
    """Peak of the learning rate."""

    generator_learning_rate: float | None = bounded("positive", None)
    """Peak learning rate of the generator; same schedule. Weights that it
    shares learn at the discriminator's. Default: `learning_rate`."""

    lr_decay_power: float = bounded("at least 0", 1.0)
    """Power of the polynomial decay to 0; 1 is linear."""

    weight_decay_rate: float = bounded("at least 0", 0.01)
    """Decoupled weight decay, as a factor of the learning rate; biases and
    layer normalization do not decay."""

    num_warmup_steps: int = bounded("at least 0", 10_000)
    """Updates of linear warm-up of the learning rate from 0; 0 for none."""

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

    original_lr_step: bool = False
    """Take the learning rate of the next update: the original reads its step
    while it counts it, and mostly gets the new one."""
