"""Masking, and the objectives of pre-training."""

import dataclasses
import pkgutil
from typing import Any, TypeVar

from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, bounded, one_of

Numbers = TypeVar("Numbers")  # a float or a tensor

_HERE = "electra_tf.pretrain.objectives."
OBJECTIVES: dict[str, str] = {
    "electra": _HERE + "electra:Electra",
    "adversarial": _HERE + "adversarial:Adversarial",
    "all_tokens_mlm": _HERE + "all_tokens_mlm:AllTokensMlm",
    "coco_lm": _HERE + "coco_lm:CocoLm",
    "electra_15": _HERE + "electra_15:Electra15",
    "electric": _HERE + "electric:Electric",
    "fast_electra": _HERE + "fast_electra:FastElectra",
    "mc_bert": _HERE + "mc_bert:McBert",
    "mlm": _HERE + "mlm:MaskedLanguageModel",
    "replace_mlm": _HERE + "replace_mlm:ReplaceMlm",
    "script": _HERE + "script:Script",
    "teams": _HERE + "teams:Teams",
    "two_stage": _HERE + "two_stage:TwoStage",
}
"""Class of each objective, "module:Class", by name: one line registers it."""

PUBLISHED: dict[str, dict[str, Any]] = {
    "mc_bert": {"selection_weight": 50.0, "num_candidates": 10},
    "script": {"disc_weight": 1.0},
    "teams": {"disc_weight": 5.0},
}
"""Defaults of an objective where its paper's differ from `_DEFAULTS`."""
_DEFAULTS = {"disc_weight": 50.0, "selection_weight": 2.0, "num_candidates": 5}


def get_class(name: str) -> Any:  # noqa: ANN401 (a type that needs TensorFlow)
    """Imports the class of an objective."""
    return pkgutil.resolve_name(OBJECTIVES[name])


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig(Checked):
    """Selection of the masked tokens, and their replacement in the input."""

    mask_prob: float = bounded(0.15, 0, 1)
    """Share of a row's tokens that are selected for prediction."""
    mask_prob_end: float | None = bounded(None, 0, 1)
    """Share at the end of the training, reached linearly; also used in
    evaluation. Default: `mask_prob`."""
    masking_strategy: str = one_of(
        "uniform", "whole_word", "ngram", "span", "unigram"
    )
    """uniform: single word pieces; whole_word: whole words; ngram: up to 3
    words; span: a span of words (3.8 pieces on average); unigram: word pieces,
    rare ones more often."""
    mask_token_prob: float = bounded(0.85, 0, 1)
    """Share of the selected tokens that are replaced by [MASK]."""
    random_token_prob: float = bounded(0.0, 0, 1)
    """Share of the selected tokens that are replaced by a random word piece."""

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.mask_token_prob + self.random_token_prob
        if total > 1:
            raise UserError(
                f"mask_token_prob + random_token_prob = {total:g}, above 1."
            )

    def mask_prob_at(self, progress: Numbers) -> Numbers | float:
        """Returns the share of the tokens that are selected."""
        if self.mask_prob_end is None:
            return self.mask_prob
        return (1 - progress) * self.mask_prob + progress * self.mask_prob_end

    def max_predictions_per_seq(self, max_seq_length: int) -> int:
        """Returns N, the number of slots for selected tokens in a row."""
        largest = max(self.mask_prob, self.mask_prob_end or 0.0)
        return min(max_seq_length, int((largest + 0.005) * max_seq_length))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectiveConfig(Checked):
    """The pre-training objective: its losses and its generator."""

    objective: str = dataclasses.field(  # includes ones registered later
        default="electra", metadata={"choices": OBJECTIVES.keys()}
    )
    """Pre-training objective; see docs/objectives.md."""
    gen_weight: float = bounded(1.0, 0)
    """Weight of the generator's loss."""
    disc_weight: float | None = bounded(None, 0)
    """Weight of the discriminator's loss. Default: 50; of teams 5 and of
    script 1, as published."""
    disc_weight_steps: tuple[int, ...] = (0, 0)
    """START,END: updates between which the weight of the discriminator's loss
    rises linearly from 0. The steps of weights that this loss alone trains rise
    with it."""
    temperature: float = bounded(1.0, 0)
    """Temperature at which the generator is sampled."""
    temperature_end: float | None = bounded(None, 0)
    """Temperature at the end of the training, reached linearly; also used in
    evaluation. Default: `temperature`."""
    top_k: int = bounded(0, 0)
    """Sample only from the k most likely tokens; 0 for all tokens."""
    disallow_correct: bool = False
    """Never sample the original token."""
    generator_type: str = one_of(
        "transformer", "two_tower", "uniform", "unigram"
    )
    """Source of the replaced tokens: a masked language model; two networks that
    predict each token from its left and its right context; all word pieces
    equally; or word pieces by their frequency."""
    freeze_generator: bool = False
    """Do not train the generator, which comes from a checkpoint."""
    adversarial_method: str = one_of("reinforce", "gumbel")
    """adversarial: the generator's gradient from the discriminator: REINFORCE,
    as in the paper, or straight-through Gumbel-Softmax."""
    adversarial_weight: float = bounded(1.0, 0, 1)
    """adversarial: share of the adversarial loss in the generator's loss."""
    adversarial_steps: tuple[int, ...] = (0, 0)
    """adversarial: START,END: updates between which that share rises from 0."""
    init_discriminator_from_generator: bool = True
    """two_stage: initialize the discriminator from the generator, which must
    have the same shape. Without it little is learned."""
    num_candidates: int | None = bounded(None, 2)
    """mc_bert, teams: candidates at each position, most of them sampled from
    the generator. Default: 5; of mc_bert 10, as published."""
    selection_weight: float | None = bounded(None, 0)
    """mc_bert, teams: weight of the loss of selecting the correct candidate.
    Default: 2; of mc_bert 50, as published."""
    contrast_group: int = bounded(8, 2)
    """coco_lm: consecutive rows of a batch that are contrasted with each other;
    the rows of a micro-batch must be a multiple."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("disc_weight_steps", "adversarial_steps"):
            first, last = getattr(self, name)
            if first > last:
                raise UserError(f"{name}={first},{last} is descending.")
        defaults = _DEFAULTS | PUBLISHED.get(self.objective, {})
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def temperature_at(self, progress: Numbers) -> Numbers | float:
        """Returns the sampling temperature."""
        if self.temperature_end is None:
            return self.temperature
        change = self.temperature_end - self.temperature
        return self.temperature + progress * change
