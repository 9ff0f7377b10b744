"""The configuration of what came after ELECTRA; needs no TensorFlow."""

import dataclasses
import math

from electra_tf.util.config_fields import one_of, require, require_choices


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionConfig:
    """How the right word is chosen among a few (mc_bert, teams)."""

    num_candidates: int = 5
    """What is chosen from at each position: the right word and others drawn
    from the generator (teams); or <neither>, the right word if the token was
    replaced, and others (mc_bert)."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastConfig:
    """How a text is told from others by a crop of it (coco_lm)."""

    contrast_weight: float = 1.0
    """Weight of the loss of that."""

    contrast_group: int = 8
    """Neighbouring rows of a batch that are told from each other. They stay in
    one micro-batch of one replica, which hold a multiple of them."""

    contrast_temperature: float = 1.0
    """Temperature of the softmax over cosines."""

    crop_share: float = 0.9
    """Share of a row's tokens that its crop keeps."""

    def __post_init__(self) -> None:
        weight, temperature = "contrast_weight", "contrast_temperature"
        require(self, weight, "at least 0", lambda x: 0 <= x < math.inf)
        require(self, temperature, "positive", lambda x: 0 < x < math.inf)
        require(self, "contrast_group", "at least 2", lambda n: n >= 2)
        require(self, "crop_share", "in (0, 1]", lambda x: 0 < x <= 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """What is asked of a whole row (electra_sentence, mlm_sentence)."""

    sentence_loss: str = one_of(
        "sentence_order", "next_sentence", "any_replaced"
    )
    """Whether the two segments of the row were swapped; whether its second is
    that of the neighbouring row; or whether the generator replaced any token
    of it (electra_sentence)."""

    sentence_weight: float = 1.0
    """Weight of the loss of that."""

    uncorrupted_share: float = 0.2
    """Share of the rows that are not corrupted, with any_replaced."""

    def __post_init__(self) -> None:
        weight, share = "sentence_weight", "uncorrupted_share"
        require(self, weight, "at least 0", lambda x: 0 <= x < math.inf)
        require(self, share, "in (0, 1)", lambda x: 0 < x < 1)
        require_choices(self)
