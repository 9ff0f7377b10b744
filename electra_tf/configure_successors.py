"""The configuration of what came after ELECTRA; needs no TensorFlow."""

import dataclasses
import math

from electra_tf.util.config_fields import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionConfig:
    """How the right word is chosen among a few (mc_bert, teams)."""

    num_candidates: int = 5
    """What is chosen from at each position: the right word and samples of the
    generator (teams); or <neither>, the right word if the token was replaced,
    and samples (mc_bert)."""

    selection_weight: float = 2.0
    """Weight of the loss of the choice."""

    num_detection_layers: int = 1
    """Layers that teams has twice, the topmost: once for the choice and once
    for the discriminator."""

    def __post_init__(self) -> None:
        weight = "selection_weight"
        require(self, "num_candidates", "at least 2", lambda n: n >= 2)
        require(self, weight, "at least 0", lambda x: 0 <= x < math.inf)
        require(self, "num_detection_layers", "at least 1", lambda n: n >= 1)
