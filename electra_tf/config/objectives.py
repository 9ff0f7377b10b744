"""The configuration of objectives; needs no TensorFlow."""

import dataclasses

from electra_tf.config.masking import Numbers
from electra_tf.config.objective_traits import TRAITS, Traits
from electra_tf.util.config_fields import Checked, bounded, one_of, require
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectiveConfig(Checked):
    """The pre-training objective."""

    objective: str = dataclasses.field(  # includes ones registered later
        default="electra", metadata={"choices": TRAITS.keys()}
    )
    """Pre-training objective; see docs/objectives.md and the file of each in
    `pretrain/objectives`."""

    gen_weight: float = bounded("at least 0", 1.0)
    """Weight of the generator's loss."""

    disc_weight: float = bounded("at least 0", 50.0)
    """Weight of the discriminator's loss."""

    disc_weight_start_step: int = bounded("at least 0", 0)
    """Update after which the weight of the discriminator's loss begins to rise
    from 0. Until then, weights that this loss alone trains do not change."""

    disc_weight_end_step: int = bounded("at least 0", 0)
    """Update after which that weight has risen, linearly, to `disc_weight`. The
    steps of weights that this loss alone trains rise with it. The reported loss
    has `disc_weight` throughout."""

    corrector_weight: float = bounded("at least 0", 1.0)
    """Weight of the loss of an encoder that predicts the original tokens of the
    text that the generator corrupted."""

    temperature: float = bounded("positive", 1.0)
    """Temperature at which the generator is sampled."""

    temperature_end: float | None = bounded("positive", None)
    """Temperature at the end of the training, to which `temperature` changes
    linearly; also used in evaluation. Default: `temperature` throughout."""

    top_k: int = bounded("at least 0", 0)
    """Sample only from the k most likely tokens; 0 for all tokens."""

    disallow_correct: bool = False
    """Never sample the original token."""

    generator_type: str = one_of(
        "transformer", "two_tower", "uniform", "unigram"
    )
    """Source of the replaced tokens. transformer: a masked language model,
    trained jointly; two_tower: two networks that predict each token of the
    clean text from its left and its right context; uniform: all word pieces
    with equal probability; unigram: word pieces by their frequency in the
    training records. The objective electric always has two towers."""

    freeze_generator: bool = False
    """Take the generator from `generator_checkpoint` or `init_checkpoint` and
    do not train it. The objective fast_electra always does."""

    original_sampling: bool = False
    """Sample with the original's Gumbel noise, one random number for each word
    piece; the same distribution up to the constants in its logarithms."""

    original_noise_odds: bool = False
    """Objective electric: compute the odds of noise from `mask_prob`, as the
    original does, and not from the tokens selected in each row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_schedule()
        if self.generator_type == "uniform":
            expected = (
                "0 with generator_type=uniform, whose tokens are all equally "
                "likely"
            )
            require(self, "top_k", expected, lambda k: k == 0)
        self._check_generator()
        if self.traits.needs_noise_probabilities:
            self._check_noise()
        if self.has_frozen_generator:
            self._check_frozen()
        if self.traits.has_own_temperature:
            expected = (
                f"left out with {self.objective}, which has its own schedule, "
                "or equal to `temperature`"
            )
            same = self.temperature
            require(self, "temperature_end", expected, lambda x: x == same)

    @property
    def traits(self) -> Traits:
        """Traits of the objective, which no setting changes."""
        return TRAITS[self.objective]

    @property
    def has_two_towers(self) -> bool:
        """Whether the generator is two towers."""
        is_always = self.traits.two_towers == "always"
        return is_always or self.generator_type == "two_tower"

    @property
    def has_generator(self) -> bool:
        """Whether replacements are sampled from a network."""
        return self.generator_type not in ("uniform", "unigram")

    @property
    def has_frozen_generator(self) -> bool:
        """Whether the generator is already trained and stays frozen."""
        is_always = self.traits.frozen_generator == "always"
        return is_always or self.freeze_generator

    @property
    def trains_generator(self) -> bool:
        """Whether a separate generator is trained."""
        return self.has_own_generator and not self.has_frozen_generator

    @property
    def has_own_generator(self) -> bool:
        """Whether the generator is a network beside the main encoder."""
        return self.has_generator and self.traits.has_own_generator

    def temperature_at(self, progress: Numbers) -> Numbers | float:
        """Returns the sampling temperature."""
        if self.temperature_end is None:
            return self.temperature
        change = self.temperature_end - self.temperature
        return self.temperature + progress * change

    def _check_schedule(self) -> None:
        """Refuses a schedule for a loss that is missing or starts later."""
        _check_rise(self, "disc_weight")
        traits, is_late = self.traits, self.disc_weight_end_step > 0
        if is_late and (
            traits.trains_generator_first or not traits.has_disc_loss
        ):
            expected = (
                "one that has a disc_loss from the first update on, with "
                "disc_weight_end_step"
            )
            require(self, "objective", expected, lambda _: False)

    def _check_generator(self) -> None:
        """Refuses a generator that the objective does not support."""
        kind, traits = self.generator_type, self.traits
        if traits.needs_transformer and kind != "transformer":
            raise UserError(
                "`generator_type` must be transformer with objective="
                f"{self.objective}: {traits.needs_transformer}. Received: "
                f"generator_type={kind}."
            )
        if traits.two_towers == "always":
            towers = (
                f"two_tower with objective={self.objective}, which samples its "
                "noise from two towers"
            )
            kinds = ("two_tower", "transformer")  # the latter: not set
            require(self, "generator_type", towers, kinds.__contains__)
        elif kind == "two_tower":
            names = [n for n, t in TRAITS.items() if t.two_towers != "never"]
            expected = f"{' or '.join(names)} with generator_type=two_tower"
            require(self, "objective", expected, names.__contains__)

    def _check_frozen(self) -> None:
        """Checks that a frozen generator is a single, separate network."""
        names = [n for n, t in TRAITS.items() if t.frozen_generator != "never"]
        expected = f"one of {', '.join(names)} with freeze_generator"
        require(self, "objective", expected, names.__contains__)
        expected = "transformer where the generator is frozen"
        require(self, "generator_type", expected, "transformer".__eq__)

    def _check_noise(self) -> None:
        """Refuses modified sampling, whose noise probabilities are unknown."""
        noise = (
            f"with objective={self.objective}, which samples from the "
            "towers' unmodified predictions"
        )
        temperatures = "temperature temperature_end"
        require(self, temperatures, f"1 {noise}", lambda x: x == 1)
        require(self, "top_k", f"0 {noise}", lambda k: k == 0)
        require(self, "disallow_correct", f"False {noise}", lambda x: not x)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdversarialConfig(Checked):
    """Adversarial training of the generator (adversarial)."""

    adversarial_method: str = one_of("reinforce", "gumbel")
    """How the generator gets its gradient from the discriminator: from rewards
    (REINFORCE, as in the paper), or through relaxed samples (straight-through
    Gumbel-Softmax)."""

    adversarial_weight: float = bounded("in [0, 1]", 1.0)
    """Share of the adversarial loss in the generator's loss, once it has risen;
    the rest is the maximum likelihood loss."""

    adversarial_start_step: int = bounded("at least 0", 0)
    """Update after which that share begins to rise from 0."""

    adversarial_end_step: int = bounded("at least 0", 0)
    """Update after which that share has risen, linearly, to
    `adversarial_weight`."""

    baseline_weight: float = bounded("positive", 1.0)
    """Weight of the loss of REINFORCE's learned baseline."""

    gumbel_temperature: float = bounded("positive", 1.0)
    """Temperature of the relaxed samples; a lower one is closer to discrete
    samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_rise(self, "adversarial")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FastElectraConfig(Checked):
    """Temperature schedule of a frozen generator (fast_electra)."""

    initial_temperature: float = bounded("positive", 2.0)
    """Sampling temperature at the start; it decays exponentially towards
    `temperature`."""

    temperature_time: float = bounded("positive", 0.1)
    """Time constant of that decay, as a share of the training: the remaining
    difference shrinks to 1 / e in it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoStageConfig(Checked):
    """Training of a generator, then of a discriminator (two_stage)."""

    generator_steps: int = bounded("at least 0", 0)
    """Updates of the generator alone, before those of the discriminator; 0 for
    half of all updates."""

    init_discriminator_from_generator: bool = True
    """Initialize the discriminator's encoder from the generator's, which must
    have the same shape. Without it the discriminator may learn nothing beyond
    the share of replaced tokens."""

    def first_steps(self, num_train_steps: int) -> int:
        """Returns the number of updates of the generator alone."""
        return self.generator_steps or num_train_steps // 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionConfig(Checked):
    """Selection of the correct word among candidates (mc_bert, teams)."""

    num_candidates: int = bounded("at least 2", 5)
    """Candidates at each position: the original word and others sampled from
    the generator (teams); or <neither>, the original word if the token was
    replaced, and others (mc_bert)."""

    selection_weight: float = bounded("at least 0", 2.0)
    """Weight of the selection loss."""

    num_detection_layers: int = bounded("at least 1", 1)
    """teams: number of top layers that exist twice, once for the selection and
    once for the discriminator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastConfig(Checked):
    """Contrastive learning of texts and crops of them (coco_lm)."""

    contrast_weight: float = bounded("at least 0", 1.0)
    """Weight of the contrastive loss."""

    contrast_group: int = bounded("at least 2", 8)
    """Consecutive rows of a batch that are contrasted with each other. They
    stay in one micro-batch of one replica, whose rows must be a multiple of
    this."""

    contrast_temperature: float = bounded("positive", 1.0)
    """Temperature of the softmax over cosines."""

    crop_share: float = bounded("in (0, 1]", 0.9)
    """Share of a row's tokens that its crop keeps."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceConfig(Checked):
    """Losses on whole rows (electra_sentence, mlm_sentence)."""

    sentence_loss: str = one_of(
        "sentence_order", "next_sentence", "any_replaced"
    )
    """What is predicted of a row: whether its two segments were swapped;
    whether its second segment is that of a neighbouring row; or whether the
    generator replaced any of its tokens (only electra_sentence)."""

    sentence_weight: float = bounded("at least 0", 1.0)
    """Weight of the loss named by `sentence_loss`."""

    uncorrupted_share: float = bounded("in (0, 1)", 0.2)
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
