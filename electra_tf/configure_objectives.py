"""Parts of a pre-training's configuration that single objectives read."""

import dataclasses
import math

from electra_tf.util.config_fields import one_of, require, require_choices
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdversarialConfig:
    """How the generator works against the discriminator (adversarial)."""

    adversarial_method: str = one_of("reinforce", "gumbel")
    """How the generator learns from the discriminator: from rewards
    (REINFORCE, the paper's), or by a gradient through relaxed samples
    (straight-through Gumbel-Softmax)."""

    adversarial_weight: float = 1.0
    """Share of the adversarial loss in the generator's, once it has risen; the
    rest is that of maximum likelihood."""

    adversarial_start_step: int = 0
    """Updates after which that share begins to rise from 0."""

    adversarial_end_step: int = 0
    """Updates after which it has risen; it does so linearly."""

    baseline_weight: float = 1.0
    """Weight of the loss of the baseline that REINFORCE learns."""

    gumbel_temperature: float = 1.0
    """Temperature of the relaxed samples; lower is closer to real ones."""

    def __post_init__(self) -> None:
        steps = "adversarial_start_step adversarial_end_step"
        positive = "baseline_weight gumbel_temperature"
        require(self, "adversarial_weight", "in [0, 1]", lambda x: 0 <= x <= 1)
        require(self, steps, "at least 0", lambda n: n >= 0)
        require(self, positive, "positive", lambda x: 0 < x < math.inf)
        require_choices(self)
        if self.adversarial_end_step < self.adversarial_start_step:
            raise UserError(
                "`adversarial_end_step` must be at least "
                "`adversarial_start_step`. Received: "
                f"adversarial_start_step={self.adversarial_start_step}, "
                f"adversarial_end_step={self.adversarial_end_step}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoStageConfig:
    """How a generator and then a discriminator are trained (two_stage)."""

    generator_steps: int = 0
    """Updates of the generator alone, before those of the discriminator; 0 for
    half of all."""

    init_discriminator_from_generator: bool = True
    """Start the discriminator's encoder from the generator's, which must have
    the same shape. Without it the discriminator may learn nothing beyond the
    share of replaced tokens."""

    def __post_init__(self) -> None:
        require(self, "generator_steps", "at least 0", lambda n: n >= 0)
