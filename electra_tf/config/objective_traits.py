"""Traits of each objective; needs no TensorFlow.

An objective is one file in `pretrain/objectives`, with its networks and losses,
and one entry of `TRAITS`. The entry is here and not in that file because the
flags, their checks, `--help` and the count of FLOPs read it before TensorFlow
is imported. Nothing else in the package names an objective.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple


class Reading(NamedTuple):
    """One pass of a network over each row of an update, and its outputs.

    Positions are "masked" for the masked slots, "all" for all tokens, or "".

    Attributes:
      predictions: positions whose word is predicted by a softmax over the
        vocabulary.
      decisions: positions that are classified as replaced or not.
      choices: positions whose word is chosen among `num_candidates`.
      scored: positions where that softmax is computed without a loss.
      of_generator: the generator makes the pass, forward only; else the main
        encoder does.
      more_candidates: candidates in addition to `num_candidates`.
      has_more_layers: `num_detection_layers` of the layers exist twice.
      needs_dropout: the pass is made only if the networks have dropout.
    """

    predictions: str = ""
    decisions: str = ""
    choices: str = ""
    scored: str = ""
    of_generator: bool = False
    more_candidates: int = 0
    has_more_layers: bool = False
    needs_dropout: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traits:
    """Traits of an objective."""

    model: str
    """Class of the objective, as "module:Class"."""

    reads: Mapping[str, Reading]
    """Passes of an update after the generator's own, by name of the network;
    they determine the cost of an update."""

    answers: str = "verdicts"
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

    judges_rows: bool = False
    """Whether there is a loss on whole rows, so that a row must be one text."""


_HERE = "electra_tf.pretrain.objectives."
_VERDICTS = {"discriminator": Reading(decisions="all")}
_FILLED = {"encoder": Reading(predictions="masked")}
_CHOOSES = "the words to choose from are what a network takes for likely"

TRAITS: dict[str, Traits] = {
    "electra": Traits(
        model=_HERE + "electra:Electra",
        reads=_VERDICTS,
        frozen_generator="allowed",
        two_towers="allowed",
    ),
    "adversarial": Traits(
        model=_HERE + "adversarial:Adversarial",
        reads=_VERDICTS,
        needs_transformer="only that learns from the discriminator",
    ),
    "all_tokens_mlm": Traits(
        model=_HERE + "all_tokens_mlm:AllTokensMlm",
        reads={"encoder": Reading(predictions="all", decisions="all")},
        answers="words",
        has_disc_loss=False,
        frozen_generator="allowed",
    ),
    "coco_lm": Traits(
        model=_HERE + "coco_lm:CocoLm",
        reads={
            "sampler": Reading(
                predictions="masked", of_generator=True, needs_dropout=True
            ),
            "discriminator": Reading(predictions="masked", decisions="all"),
            "crop": Reading(),  # counted as long as the row
        },
        judges_rows=True,
    ),
    "electra_15": Traits(
        model=_HERE + "electra_15:Electra15",
        reads=_VERDICTS,
        frozen_generator="allowed",
    ),
    "electra_sentence": Traits(
        model=_HERE + "electra_sentence:ElectraSentence",
        reads=_VERDICTS,
        judges_rows=True,
    ),
    "electric": Traits(
        model=_HERE + "electric:Electric",
        reads=_VERDICTS,
        answers="energies",
        two_towers="always",
        needs_noise_probabilities=True,
    ),
    "fast_electra": Traits(
        model=_HERE + "fast_electra:FastElectra",
        reads=_VERDICTS,
        frozen_generator="always",
        has_own_temperature=True,
    ),
    "mc_bert": Traits(
        model=_HERE + "mc_bert:McBert",
        reads={
            "offers": Reading(scored="all", of_generator=True),
            # <neither>, the sampled words, and the original word.
            "encoder": Reading(choices="all", more_candidates=1),
        },
        has_disc_loss=False,
        frozen_generator="allowed",
        needs_transformer=_CHOOSES,
    ),
    "mlm": Traits(
        model=_HERE + "mlm:MaskedLanguageModel",
        reads=_FILLED,
        answers="",
        has_disc_loss=False,
        has_own_generator=False,
    ),
    "mlm_sentence": Traits(
        model=_HERE + "mlm_sentence:MlmSentence",
        reads=_FILLED,
        answers="",
        has_disc_loss=False,
        has_own_generator=False,
        judges_rows=True,
    ),
    "replace_mlm": Traits(
        model=_HERE + "replace_mlm:ReplaceMlm",
        reads=_FILLED,
        answers="words",
        has_disc_loss=False,
        frozen_generator="allowed",
    ),
    "script": Traits(
        model=_HERE + "script:Script",
        # One network makes both passes; word scores are parts of verdicts.
        reads={**_FILLED, "critic": Reading(predictions="all")},
        has_own_generator=False,
        needs_transformer="its one network fills the masks",
    ),
    "teams": Traits(
        model=_HERE + "teams:Teams",
        # The discriminator's own top layers count as further layers.
        reads={
            "discriminator": Reading(
                decisions="all", choices="masked", has_more_layers=True
            )
        },
        frozen_generator="allowed",
        needs_transformer=_CHOOSES,
    ),
    "two_stage": Traits(
        model=_HERE + "two_stage:TwoStage",
        reads=_VERDICTS,
        trains_generator_first=True,
        needs_transformer="it is trained alone first",
    ),
}
"""The objectives, by name; docs/objectives.md describes each."""
