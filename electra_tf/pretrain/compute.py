"""What a training has cost after some updates; needs no TensorFlow.

Counted by the rules of `model/flops`, the paper's: equal numbers are equal
compute. Each row counts as long as the longest of its phase, padding included.
"""

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import flops


def sizes(
    config: PretrainingConfig, vocab_size: int, max_seq_length: int = 0
) -> flops.Sizes:
    """Returns what the cost of an update depends on.

    Args:
      config: the whole configuration.
      vocab_size: word pieces.
      max_seq_length: tokens in a row; 0 for those of the longest rows.
    """
    length = max_seq_length or config.corpus.max_seq_length
    return flops.Sizes(
        discriminator=config.model.discriminator(vocab_size),
        generator=config.model.generator(vocab_size),
        max_seq_length=length,
        max_predictions_per_seq=config.masking.max_predictions_per_seq(length),
        generator_type=config.objective.generator_type,
        is_generator_trained=not config.objective.has_frozen_generator,
        num_candidates=config.selection.num_candidates,
        num_detection_layers=config.selection.num_detection_layers,
    )


def training_flops(
    config: PretrainingConfig, vocab_size: int, step: int, **rule: bool
) -> int:
    """Counts the updates from the first on.

    Args:
      config: the whole configuration.
      vocab_size: word pieces.
      step: updates done.
      **rule: of `flops.update_flops`.

    Returns:
      FLOPs.
    """
    total = 0
    for phase in config.phases:
        begin = 0
        for end, parts in _stages(config, vocab_size, phase.max_seq_length):
            first = max(begin, phase.first_step)
            last = min(end, phase.end_step, step)
            update = flops.update_flops(parts, phase.batch_size, **rule)
            total += max(0, last - first) * update
            begin = end
    return total


def _stages(
    config: PretrainingConfig, vocab_size: int, max_seq_length: int
) -> list[tuple[int, dict[str, flops.Pass]]]:
    """Returns the last update of each stage, and what one of it computes."""
    num_steps = config.training.num_train_steps
    found = sizes(config, vocab_size, max_seq_length)
    passes = flops.passes(config.objective.objective, found)
    if config.objective.objective != "two_stage":
        return [(num_steps, passes)]
    first = config.two_stage.first_steps(num_steps)
    return [(first, flops.first_stage(found)), (num_steps, passes)]
