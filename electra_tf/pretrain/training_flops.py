"""FLOPs of an update and of a training; needs no TensorFlow.

Counted by the rules of `model/flops`, the paper's: equal numbers are equal
compute. An objective says in its traits (`config/objective_traits.py`) what its
networks read. Each row counts as long as the longest of its phase, padding
included.
"""

import dataclasses

from electra_tf.config.model import BertConfig
from electra_tf.config.objective_traits import TRAITS, Reading
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.flops import Pass, update_flops
from electra_tf.util.config_fields import one_of, require_choices
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the cost of an update depends on, for any objective.

    Raises:
      UserError: if the type of the generator is unknown.
    """

    discriminator: BertConfig
    """The shape of the main encoder."""

    generator: BertConfig | None = None
    """The shape of the generator, or of each of its towers; where it shares all
    weights, the discriminator's. None where no network generates."""

    max_seq_length: int
    """Tokens in a row, L."""

    max_predictions_per_seq: int
    """Masked slots in a row, N."""

    generator_type: str = one_of(
        "transformer", "two_tower", "uniform", "unigram"
    )
    """The generator: an encoder that predicts the masked slots, two
    towers that predict every token, or chance, which costs nothing."""

    is_generator_trained: bool = True
    """False for a frozen generator, which runs forward only."""

    num_candidates: int = 5
    """Words that are chosen from at a position (mc_bert, teams)."""

    num_detection_layers: int = 1
    """Layers that a network has twice (teams)."""

    def __post_init__(self) -> None:
        require_choices(self)


def sizes_of(
    config: PretrainingConfig, vocab_size: int, max_seq_length: int = 0
) -> Sizes:
    """Returns what the cost of an update depends on.

    Args:
      config: the whole configuration.
      vocab_size: word pieces.
      max_seq_length: tokens in a row; 0 for those of the longest rows.
    """
    length = max_seq_length or config.corpus.max_seq_length
    return Sizes(
        discriminator=config.model.discriminator(vocab_size),
        generator=config.model.generator(vocab_size),
        max_seq_length=length,
        max_predictions_per_seq=config.masking.max_predictions_per_seq(length),
        generator_type=config.objective.generator_type,
        is_generator_trained=not config.objective.has_frozen_generator,
        num_candidates=config.selection.num_candidates,
        num_detection_layers=config.selection.num_detection_layers,
    )


def passes(objective: str, sizes: Sizes) -> dict[str, Pass]:
    """Returns what one update computes, the last, by the name of the network.

    Args:
      objective: one of `TRAITS`.
      sizes: of networks and rows.

    Raises:
      UserError: if the objective is unknown, or its generator is not given.
    """
    if objective not in TRAITS:
        raise UserError(
            f"`objective` must be one of {', '.join(TRAITS)} for its FLOPs to "
            f"be counted. Received: objective={objective!r}."
        )
    traits = TRAITS[objective]
    if traits.frozen_generator == "always" or traits.trains_generator_first:
        sizes = dataclasses.replace(sizes, is_generator_trained=False)
    if traits.two_towers == "always":
        sizes = dataclasses.replace(sizes, generator_type="two_tower")
    parts = generator_pass(sizes) if traits.has_own_generator else {}
    generator = parts.get("generator")
    for name, reading in traits.reads.items():
        is_there = sizes.discriminator.has_dropout or not reading.needs_dropout
        if is_there and (generator or not reading.of_generator):
            parts[name] = _reading_pass(reading, sizes, generator)
    return parts


def generator_pass(sizes: Sizes) -> dict[str, Pass]:
    """Returns what the generator computes: one pass, or none.

    Raises:
      UserError: if its shape is not given.
    """
    if sizes.generator_type in ("uniform", "unigram"):
        return {}
    if sizes.generator is None:
        raise UserError(
            "`generator` must be a shape for "
            f"generator_type={sizes.generator_type}. Received: None."
        )
    has_towers = sizes.generator_type == "two_tower"
    length, slots = sizes.max_seq_length, sizes.max_predictions_per_seq
    generator = Pass(
        network=sizes.generator,
        num_tokens=length,
        num_predictions=length if has_towers else slots,
        num_towers=2 if has_towers else 1,
        is_trained=sizes.is_generator_trained,
    )
    return {"generator": generator}


def _reading_pass(
    reading: Reading, sizes: Sizes, generator: Pass | None
) -> Pass:
    """Returns the pass of a network beside the generator's own."""
    length, bert = sizes.max_seq_length, sizes.discriminator
    counts = {"masked": sizes.max_predictions_per_seq, "all": length, "": 0}
    more_layers = sizes.num_detection_layers * reading.has_more_layers
    made = Pass(
        network=dataclasses.replace(
            bert, num_hidden_layers=bert.num_hidden_layers + more_layers
        ),
        num_tokens=length,
        num_predictions=counts[reading.predictions],
        num_decisions=counts[reading.decisions],
        num_draws=counts[reading.draws],
        num_choices=counts[reading.choices],
        num_candidates=sizes.num_candidates + reading.more_candidates
        if reading.choices
        else 0,
    )
    if not reading.of_generator:
        return made
    return dataclasses.replace(
        made,
        network=generator.network,
        num_towers=generator.num_towers,
        is_trained=False,
    )


def training_flops(
    config: PretrainingConfig, vocab_size: int, step: int, **rule: bool
) -> int:
    """Counts the updates from the first on.

    Args:
      config: the whole configuration.
      vocab_size: word pieces.
      step: updates done.
      **rule: of `update_flops`.

    Returns:
      FLOPs.
    """
    total = 0
    for phase in config.phases:
        begin = 0
        for end, parts in _stages(config, vocab_size, phase.max_seq_length):
            first = max(begin, phase.first_step)
            last = min(end, phase.end_step, step)
            update = update_flops(parts, phase.batch_size, **rule)
            total += max(0, last - first) * update
            begin = end
    return total


def _stages(
    config: PretrainingConfig, vocab_size: int, max_seq_length: int
) -> list[tuple[int, dict[str, Pass]]]:
    """Returns the last update of each stage, and what one of it computes."""
    num_steps = config.training.num_train_steps
    found = sizes_of(config, vocab_size, max_seq_length)
    last = num_steps, passes(config.objective.objective, found)
    if not config.objective.traits.trains_generator_first:
        return [last]
    return [
        (config.two_stage.first_steps(num_steps), generator_pass(found)),
        last,
    ]
