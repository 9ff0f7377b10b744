"""What a generator can be, beside what else is configured."""

from electra_tf.configure_masking import MaskingConfig
from electra_tf.configure_objectives import ObjectiveConfig
from electra_tf.model.bert_config import ModelConfig
from electra_tf.util.errors import UserError


def check_generator(
    objective: ObjectiveConfig,
    model: ModelConfig,
    masking: MaskingConfig,
    *,
    generator_learning_rate: float | None,
) -> None:
    """Refuses a generator that does not fit the rest.

    Args:
      objective: says what the generator is.
      model: says what it shares.
      masking: says what it replaces.
      generator_learning_rate: None where it has none of its own.

    Raises:
      UserError: saying what does not fit, and why.
    """
    if objective.has_two_towers:
        _check_towers(objective, model.generator_sharing)
    if objective.objective == "electric":
        _check_noise(masking.masking_strategy)
    if objective.has_frozen_generator:
        _check_frozen(model.generator_sharing)
    if generator_learning_rate is not None:
        _check_rate(objective, model.generator_sharing)


def _check_towers(objective: ObjectiveConfig, sharing: str) -> None:
    if sharing not in ("embeddings", "none"):
        raise UserError(
            "`generator_sharing` must be embeddings or none with two towers: "
            "each reads in one direction, the discriminator in both, and no "
            f"table belongs to one of them. Received: generator_sharing="
            f"{sharing}, objective={objective.objective}, "
            f"generator_type={objective.generator_type}."
        )


def _check_noise(strategy: str) -> None:
    if strategy == "unigram":
        raise UserError(
            "`masking_strategy` must not be unigram with objective=electric: "
            "energies are log-probabilities only if every token is as likely "
            f"as any other to be noise. Received: masking_strategy={strategy}."
        )


def _check_frozen(sharing: str) -> None:
    if sharing not in ("none", "gradient_disentangled"):
        raise UserError(
            "`generator_sharing` must be none or gradient_disentangled with a "
            "frozen generator: what else is shared could not be trained. "
            f"Received: generator_sharing={sharing}."
        )


def _check_rate(objective: ObjectiveConfig, sharing: str) -> None:
    if not objective.trains_generator or sharing == "all":
        raise UserError(
            "`generator_learning_rate` needs a generator with weights of its "
            "own that are trained along. Received: "
            f"objective={objective.objective}, "
            f"generator_type={objective.generator_type}, "
            f"generator_sharing={sharing}, "
            f"freeze_generator={objective.freeze_generator}."
        )
