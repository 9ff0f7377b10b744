"""Traits of each objective; needs no TensorFlow.

An objective is one file in `pretrain/objectives`, with its networks and losses,
and one entry of `TRAITS`. The entry is here and not in that file because the
flags, their checks, `--help` and the count of FLOPs read it before TensorFlow
is imported. An objective needs no other code that names it.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple


class PassTraits(NamedTuple):
    """One pass of a network over each row of an update, and its outputs.

    Positions are "masked" for the masked slots, "all" for all tokens, or "".

    Attributes:
      predictions: positions whose word is predicted by a softmax over the
        vocabulary.
      in_blocks: that softmax is computed in blocks of positions, whose logits
        are never in memory together.
      decisions: positions that are classified as replaced or not.
      choices: positions whose word is chosen among `num_candidates`.
      scored: positions where that softmax is computed without a loss.
      by_generator: the generator makes the pass, forward only; else the main
        encoder does.
      more_candidates: candidates in addition to `num_candidates`.
      has_more_layers: `num_detection_layers` of the layers exist twice.
      needs_dropout: the pass is made only if the networks have dropout.
    """

    predictions: str = ""
    in_blocks: bool = False
    decisions: str = ""
    choices: str = ""
    scored: str = ""
    by_generator: bool = False
    more_candidates: int = 0
    has_more_layers: bool = False
    needs_dropout: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traits:
    """Traits of an objective."""

    model: str
    """Class of the objective, as "module:Class"."""

    passes: Mapping[str, PassTraits]
    """Passes of an update after the generator's own, by name of the network;
    they determine the cost of an update."""

    token_output: str = "verdicts"
    """Output of the main network for each token, which is exported and scored:
    "verdicts" (replaced or not), "energies", or "words" (the original token);
    "" if it is only a masked language model."""

    has_disc_loss: bool = True
    """Whether the verdicts have a loss of their own, `disc_loss`."""

    has_own_generator: bool = True
    """Whether the generator is a separate network, not the main encoder."""

    trains_generator_first: bool = False
    """Whether the generator is trained alone first, and then frozen."""

    frozen_generator: str = "never"
    """Whether the generator may be already trained and frozen: "never",
    "allowed" (with `freeze_generator`) or "always"."""

    two_towers: str = "never"
    """Whether the generator may be two towers: "never", "allowed" or
    "always"."""

    needs_transformer: str = ""
    """Why the generator must be a masked language model; "" if it need not."""

    needs_noise_probabilities: bool = False
    """Whether the loss needs the generator's probability of each sample, so
    that sampling must not be modified and any token must be equally likely to
    be selected."""

    has_own_temperature: bool = False
    """Whether the sampling temperature follows the objective's own schedule."""

    has_row_loss: bool = False
    """Whether there is a loss on whole rows, so that a row must be one text."""

    @property
    def has_energies(self) -> bool:
        """Whether it trains an energy-based model, as Electric is."""
        return self.token_output == "energies"


_HERE = "electra_tf.pretrain.objectives."
_DETECTION = {"discriminator": PassTraits(decisions="all")}
_MASK_FILLING = {"encoder": PassTraits(predictions="masked")}
_CANDIDATES_FROM_MLM = "it samples candidate words from a masked LM"

TRAITS: dict[str, Traits] = {
    "electra": Traits(
        model=_HERE + "electra:Electra",
        passes=_DETECTION,
        frozen_generator="allowed",
        two_towers="allowed",
    ),
    "adversarial": Traits(
        model=_HERE + "adversarial:Adversarial",
        passes=_DETECTION,
        needs_transformer="no other kind can learn from the discriminator",
    ),
    "all_tokens_mlm": Traits(
        model=_HERE + "all_tokens_mlm:AllTokensMlm",
        passes={"encoder": PassTraits(predictions="all", decisions="all")},
        token_output="words",
        has_disc_loss=False,
        frozen_generator="allowed",
    ),
    "coco_lm": Traits(
        model=_HERE + "coco_lm:CocoLm",
        passes={
            "sampler": PassTraits(
                predictions="masked", by_generator=True, needs_dropout=True
            ),
            "discriminator": PassTraits(predictions="masked", decisions="all"),
            "crop": PassTraits(),  # counted as long as the row
        },
        has_row_loss=True,
    ),
    "electra_15": Traits(
        model=_HERE + "electra_15:Electra15",
        passes=_DETECTION,
        frozen_generator="allowed",
    ),
    "electra_sentence": Traits(
        model=_HERE + "electra_sentence:ElectraSentence",
        passes=_DETECTION,
        has_row_loss=True,
    ),
    "electric": Traits(
        model=_HERE + "electric:Electric",
        passes=_DETECTION,
        token_output="energies",
        two_towers="always",
        needs_noise_probabilities=True,
    ),
    "fast_electra": Traits(
        model=_HERE + "fast_electra:FastElectra",
        passes=_DETECTION,
        frozen_generator="always",
        has_own_temperature=True,
    ),
    "mc_bert": Traits(
        model=_HERE + "mc_bert:McBert",
        passes={
            "candidates": PassTraits(scored="all", by_generator=True),
            # <neither>, the sampled words, and the original word.
            "encoder": PassTraits(choices="all", more_candidates=1),
        },
        has_disc_loss=False,
        frozen_generator="allowed",
        needs_transformer=_CANDIDATES_FROM_MLM,
    ),
    "mlm": Traits(
        model=_HERE + "mlm:MaskedLanguageModel",
        passes=_MASK_FILLING,
        token_output="",
        has_disc_loss=False,
        has_own_generator=False,
    ),
    "mlm_sentence": Traits(
        model=_HERE + "mlm_sentence:MlmSentence",
        passes=_MASK_FILLING,
        token_output="",
        has_disc_loss=False,
        has_own_generator=False,
        has_row_loss=True,
    ),
    "replace_mlm": Traits(
        model=_HERE + "replace_mlm:ReplaceMlm",
        passes=_MASK_FILLING,
        token_output="words",
        has_disc_loss=False,
        frozen_generator="allowed",
    ),
    "script": Traits(
        model=_HERE + "script:Script",
        # One network makes both passes; word scores are parts of verdicts.
        passes={
            **_MASK_FILLING,
            "critic": PassTraits(predictions="all", in_blocks=True),
        },
        has_own_generator=False,
        needs_transformer="its only network also fills in the masks",
    ),
    "teams": Traits(
        model=_HERE + "teams:Teams",
        # The discriminator's own top layers count as further layers.
        passes={
            "discriminator": PassTraits(
                decisions="all", choices="masked", has_more_layers=True
            )
        },
        frozen_generator="allowed",
        needs_transformer=_CANDIDATES_FROM_MLM,
    ),
    "two_stage": Traits(
        model=_HERE + "two_stage:TwoStage",
        passes=_DETECTION,
        trains_generator_first=True,
        needs_transformer="it is trained alone first",
    ),
}
"""The objectives, by name; docs/objectives.md describes each."""
