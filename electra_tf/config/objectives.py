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
    "electra_sentence": _HERE + "electra_sentence:ElectraSentence",
    "electric": _HERE + "electric:Electric",
    "fast_electra": _HERE + "fast_electra:FastElectra",
    "mc_bert": _HERE + "mc_bert:McBert",
    "mlm": _HERE + "mlm:MaskedLanguageModel",
    "mlm_sentence": _HERE + "mlm_sentence:MlmSentence",
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
"""Defaults of an objective where its paper's differ from the fields' own."""


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

    original_masking: bool = False
    """Select with replacement, as the original does: 13.8 % instead of 15 %."""

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.mask_token_prob + self.random_token_prob
        if total > 1:
            raise UserError(
                f"mask_token_prob + random_token_prob = {total:g}, above 1."
            )
        if self.original_masking and self.masking_strategy != "uniform":
            raise UserError(
                "original_masking has no masking_strategy="
                f"{self.masking_strategy}."
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
    """The pre-training objective."""

    objective: str = dataclasses.field(  # includes ones registered later
        default="electra", metadata={"choices": OBJECTIVES.keys()}
    )
    """Pre-training objective; see docs/objectives.md."""

    gen_weight: float = bounded(1.0, 0)
    """Weight of the generator's loss."""

    disc_weight: float | None = bounded(None, 0)
    """Weight of the discriminator's loss. Default: 50; of teams 5 and of
    script 1, as published."""

    disc_weight_start_step: int = bounded(0, 0)
    """Update after which the weight of the discriminator's loss rises from
    0."""

    disc_weight_end_step: int = bounded(0, 0)
    """Update after which that weight has risen, linearly, to `disc_weight`. The
    steps of weights that this loss alone trains rise with it."""

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
    """Take the generator from `generator_checkpoint` or `init_checkpoint` and
    do not train it."""

    original_sampling: bool = False
    """Sample with the original's Gumbel noise, one number for each word
    piece."""

    original_noise_odds: bool = False
    """electric: compute the odds of noise from `mask_prob`, as the original
    does, not from the tokens selected in each row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_rise(self, "disc_weight")

    def temperature_at(self, progress: Numbers) -> Numbers | float:
        """Returns the sampling temperature."""
        if self.temperature_end is None:
            return self.temperature
        change = self.temperature_end - self.temperature
        return self.temperature + progress * change


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdversarialConfig(Checked):
    """Adversarial training of the generator (adversarial)."""

    adversarial_method: str = one_of("reinforce", "gumbel")
    """The generator's gradient from the discriminator: REINFORCE, as in the
    paper, or straight-through Gumbel-Softmax."""

    adversarial_weight: float = bounded(1.0, 0, 1)
    """Share of the adversarial loss in the generator's loss."""

    adversarial_start_step: int = bounded(0, 0)
    """Update after which that share begins to rise from 0."""

    adversarial_end_step: int = bounded(0, 0)
    """Update after which that share has risen, linearly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_rise(self, "adversarial")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoStageConfig(Checked):
    """Training of a generator, then of a discriminator (two_stage)."""

    init_discriminator_from_generator: bool = True
    """Initialize the discriminator's encoder from the generator's, which must
    have the same shape. Without it little is learned."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionConfig(Checked):
    """Selection of the correct word among candidates (mc_bert, teams)."""

    num_candidates: int | None = bounded(None, 2)
    """Candidates at each position, most of them sampled from the generator.
    Default: 5; of mc_bert 10, as published."""

    selection_weight: float | None = bounded(None, 0)
    """Weight of the selection loss. Default: 2; of mc_bert 50, as published."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastConfig(Checked):
    """Contrastive learning of texts and crops of them (coco_lm)."""

    contrast_group: int = bounded(8, 2)
    """Consecutive rows of a batch that are contrasted with each other; the rows
    of a micro-batch must be a multiple."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceConfig(Checked):
    """Losses on whole rows (electra_sentence, mlm_sentence)."""

    sentence_loss: str = one_of(
        "sentence_order", "next_sentence", "any_replaced"
    )
    """What is predicted of a row: whether its segments were swapped; whether
    the second is that of a neighbour; or whether any token was replaced."""

    uncorrupted_share: float = bounded(0.2, 0, 1)
    """any_replaced: share of the rows that are not corrupted."""


def _check_rise(config: ObjectiveConfig | AdversarialConfig, name: str) -> None:
    """Refuses a rise that ends before it starts."""
    first, last = f"{name}_start_step", f"{name}_end_step"
    start, end = getattr(config, first), getattr(config, last)
    if end < start:
        raise UserError(
            f"`{last}` must be at least `{first}`. Received: "
            f"{first}={start}, {last}={end}."
        )
