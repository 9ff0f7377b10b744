"""The configuration of objectives; needs no TensorFlow."""

import dataclasses

from electra_tf.config.masking import Numbers
from electra_tf.config.objective_traits import TRAITS, Traits
from electra_tf.util.config_fields import Checked, bounded, one_of, require
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectiveConfig(Checked):
    """The pre-training objective."""

    objective: str = dataclasses.field(  # one that is registered later, too
        default="electra", metadata={"choices": TRAITS.keys()}
    )
    """The pre-training objective, each in a file of `pretrain/objectives`; see
    docs/objectives.md."""

    gen_weight: float = bounded("at least 0", 1.0)
    """Weight of the generator's loss."""

    disc_weight: float = bounded("at least 0", 50.0)
    """Weight of the discriminator's loss."""

    disc_weight_start_step: int = bounded("at least 0", 0)
    """Updates after which the weight of the discriminator's loss begins to
    rise from 0; before them what it alone trains stays as it is."""

    disc_weight_end_step: int = bounded("at least 0", 0)
    """Updates after which it has risen to `disc_weight`; it does so linearly,
    and with it the steps of what that loss alone trains. The loss that is
    reported has `disc_weight` throughout."""

    corrector_weight: float = bounded("at least 0", 1.0)
    """Weight of the loss of an encoder that predicts which tokens stood where
    the generator replaced some."""

    temperature: float = bounded("positive", 1.0)
    """Temperature at which the generator is sampled."""

    temperature_end: float | None = bounded("positive", None)
    """Temperature at the end of the training, to which `temperature` changes
    linearly; that of evaluation. Default: `temperature` throughout."""

    top_k: int = bounded("at least 0", 0)
    """Sample from so many of the likeliest tokens alone; 0: from all."""

    disallow_correct: bool = False
    """Never sample the token that was there."""

    generator_type: str = one_of(
        "transformer", "two_tower", "uniform", "unigram"
    )
    """Source of the replacements: a network that is trained along to fill
    masks, two that predict each token of the clean text from its left and its
    right, any word piece with equal probability, or each as often as it
    occurs in the training records. The objective electric always has two
    towers."""

    freeze_generator: bool = False
    """Take the generator from `generator_checkpoint` or `init_checkpoint` and
    do not train it. The objective fast_electra always does."""

    original_sampling: bool = False
    """Sample by the original's Gumbel noise: the same distribution but for
    the constants in its logarithms, from one number for each word piece."""

    original_noise_odds: bool = False
    """For electric, take the odds of noise from `mask_prob`, as the original
    does, and not from what is chosen of each row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_schedule()
        if self.generator_type == "uniform":
            expected = (
                "0 with generator_type=uniform, all of whose are as likely"
            )
            require(self, "top_k", expected, lambda k: k == 0)
        self._check_generator()
        if self.traits.needs_noise_probabilities:
            self._check_noise()
        if self.has_frozen_generator:
            self._check_frozen()
        if self.traits.has_own_temperature:
            expected = f"left out with {self.objective}: it has a schedule"
            require(self, "temperature_end", expected, lambda _: False)

    @property
    def traits(self) -> Traits:
        """Traits of the objective, the same in all trainings."""
        return TRAITS[self.objective]

    @property
    def has_two_towers(self) -> bool:
        """Whether two towers predict the tokens of the clean text."""
        is_always = self.traits.two_towers == "always"
        return is_always or self.generator_type == "two_tower"

    @property
    def has_generator(self) -> bool:
        """Whether a network says what replaces tokens."""
        return self.generator_type not in ("uniform", "unigram")

    @property
    def has_frozen_generator(self) -> bool:
        """Whether the generator is trained already."""
        is_always = self.traits.frozen_generator == "always"
        return is_always or self.freeze_generator

    @property
    def trains_generator(self) -> bool:
        """Whether a generator of its own is trained along."""
        return self.has_own_generator and not self.has_frozen_generator

    @property
    def has_own_generator(self) -> bool:
        """Whether a network beside the main encoder says what replaces."""
        return self.has_generator and self.traits.has_own_generator

    def temperature_at(self, progress: Numbers) -> Numbers | float:
        """Returns the temperature of sampling.

        Args:
          progress: how much of the training is done, from 0 to 1.
        """
        if self.temperature_end is None:
            return self.temperature
        change = self.temperature_end - self.temperature
        return self.temperature + progress * change

    def _check_schedule(self) -> None:
        """A loss that is not there, or comes later anyway, cannot rise."""
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
        """Refuses a generator that the objective cannot have."""
        kind, traits = self.generator_type, self.traits
        if traits.needs_transformer and kind != "transformer":
            raise UserError(
                "`generator_type` must be transformer with objective="
                f"{self.objective}: {traits.needs_transformer}. Received: "
                f"generator_type={kind}."
            )
        if traits.two_towers == "always":
            towers = (
                f"two_tower with objective={self.objective}, whose noise they "
                "make"
            )
            kinds = ("two_tower", "transformer")  # the latter: not set
            require(self, "generator_type", towers, kinds.__contains__)
        elif kind == "two_tower":
            names = [n for n, t in TRAITS.items() if t.two_towers != "never"]
            expected = f"{' or '.join(names)} with generator_type=two_tower"
            require(self, "objective", expected, names.__contains__)

    def _check_frozen(self) -> None:
        """A frozen generator is one network beside another, for ever."""
        names = [n for n, t in TRAITS.items() if t.frozen_generator != "never"]
        expected = f"one of {', '.join(names)} with freeze_generator"
        require(self, "objective", expected, names.__contains__)
        expected = "transformer where the generator is frozen"
        require(self, "generator_type", expected, "transformer".__eq__)

    def _check_noise(self) -> None:
        """Noise-contrastive estimation needs the probability of its noise."""
        noise = (
            f"with objective={self.objective}, which samples what the towers "
            "predict"
        )
        temperatures = "temperature temperature_end"
        require(self, temperatures, f"1 {noise}", lambda x: x == 1)
        require(self, "top_k", f"0 {noise}", lambda k: k == 0)
        require(self, "disallow_correct", f"False {noise}", lambda x: not x)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdversarialConfig(Checked):
    """Adversarial training of the generator (adversarial)."""

    adversarial_method: str = one_of("reinforce", "gumbel")
    """Gradient of the generator from the discriminator: from rewards
    (REINFORCE, the paper's), or by a gradient through relaxed samples
    (straight-through Gumbel-Softmax)."""

    adversarial_weight: float = bounded("in [0, 1]", 1.0)
    """Share of the adversarial loss in the generator's, once it has risen; the
    rest is that of maximum likelihood."""

    adversarial_start_step: int = bounded("at least 0", 0)
    """Updates after which that share begins to rise from 0."""

    adversarial_end_step: int = bounded("at least 0", 0)
    """Updates after which that share has risen, linearly."""

    baseline_weight: float = bounded("positive", 1.0)
    """Weight of the loss of the baseline that REINFORCE learns."""

    gumbel_temperature: float = bounded("positive", 1.0)
    """Temperature of the relaxed samples; lower is closer to real ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_rise(self, "adversarial")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FastElectraConfig(Checked):
    """Temperature schedule of a frozen generator (fast_electra)."""

    initial_temperature: float = bounded("positive", 2.0)
    """Temperature of sampling at the start; it falls towards `temperature`."""

    temperature_time: float = bounded("positive", 0.1)
    """Share of the training in which what is left to fall shrinks to 1 / e."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoStageConfig(Checked):
    """Training of a generator, then of a discriminator (two_stage)."""

    generator_steps: int = bounded("at least 0", 0)
    """Updates of the generator alone, before those of the discriminator; 0 for
    half of all."""

    init_discriminator_from_generator: bool = True
    """Start the discriminator's encoder from the generator's, which must have
    the same shape. Without it the discriminator may learn nothing beyond the
    share of replaced tokens."""

    def first_steps(self, num_train_steps: int) -> int:
        """Returns the updates of the generator alone.

        Args:
          num_train_steps: all updates.
        """
        return self.generator_steps or num_train_steps // 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionConfig(Checked):
    """Selection of the right word among candidates (mc_bert, teams)."""

    num_candidates: int = bounded("at least 2", 5)
    """Candidates at each position: the right word and others drawn
    from the generator (teams); or <neither>, the right word if the token was
    replaced, and others (mc_bert)."""

    selection_weight: float = bounded("at least 0", 2.0)
    """Weight of the loss of the choice."""

    num_detection_layers: int = bounded("at least 1", 1)
    """Layers that teams has twice, the topmost: once for the choice and once
    for the discriminator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastConfig(Checked):
    """Contrastive learning of texts and crops of them (coco_lm)."""

    contrast_weight: float = bounded("at least 0", 1.0)
    """Weight of the contrastive loss."""

    contrast_group: int = bounded("at least 2", 8)
    """Neighbouring rows of a batch that are told from each other. They stay in
    one micro-batch of one replica, which hold a multiple of them."""

    contrast_temperature: float = bounded("positive", 1.0)
    """Temperature of the softmax over cosines."""

    crop_share: float = bounded("in (0, 1]", 0.9)
    """Share of a row's tokens that its crop keeps."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceConfig(Checked):
    """Losses of a whole row (electra_sentence, mlm_sentence)."""

    sentence_loss: str = one_of(
        "sentence_order", "next_sentence", "any_replaced"
    )
    """Whether the two segments of the row were swapped; whether its second is
    that of the neighbouring row; or whether the generator replaced any token
    of it (electra_sentence)."""

    sentence_weight: float = bounded("at least 0", 1.0)
    """Weight of the loss named by `sentence_loss`."""

    uncorrupted_share: float = bounded("in (0, 1)", 0.2)
    """Share of the rows that are not corrupted, with any_replaced."""


def _check_rise(config: ObjectiveConfig | AdversarialConfig, name: str) -> None:
    """Refuses what has risen before it begins to."""
    first, last = f"{name}_start_step", f"{name}_end_step"
    start, end = getattr(config, first), getattr(config, last)
    if end < start:
        raise UserError(
            f"`{last}` must be at least `{first}`. Received: "
            f"{first}={start}, {last}={end}."
        )
