"""Networks of a checkpoint that read text, as an analysis asks for them."""

from electra_tf.checkpoint import checkpoint_formats, loading
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.model.networks import (
    ElectraDiscriminator,
    ElectraGenerator,
    EncoderWithHead,
)
from electra_tf.util.errors import UserError

DISCRIMINATOR, MLM = "discriminator", "mlm"


def kind_of(network: EncoderWithHead) -> str:
    """Returns which score a network gives; "" for one without a head.

    Args:
      network: any.
    """
    if isinstance(network, ElectraGenerator):
        return MLM
    is_discriminator = isinstance(network, ElectraDiscriminator)
    return DISCRIMINATOR if is_discriminator else ""


def load(path: str, config: AnalysisConfig) -> EncoderWithHead:
    """Loads the main network of a checkpoint: a discriminator, if it has one.

    Args:
      path: of the checkpoint.
      config: `vocab_file`, `max_seq_length` and `precision` are read.

    Raises:
      UserError: if it cannot be read, or has no vocabulary, or no positions
        for so many tokens.
    """
    weights = _read(path, config)
    return _make(weights, weights.networks[0], config)


def load_all(path: str, config: AnalysisConfig) -> list[EncoderWithHead]:
    """Loads every network of a checkpoint, the main one first.

    Args:
      path: of the checkpoint.
      config: as of `load`.

    Raises:
      UserError: as `load`.
    """
    weights = _read(path, config)
    return [_make(weights, name, config) for name in weights.networks]


def _read(path: str, config: AnalysisConfig) -> Weights:
    weights = checkpoint_formats.read(path, vocab_file=config.vocab_file)
    if weights.vocabulary is None:
        raise UserError(
            "A network that reads text must have a vocabulary. Received: "
            f"{weights.origin}, with none beside it. Set --vocab_file."
        )
    return weights


def _make(
    weights: Weights, name: str, config: AnalysisConfig
) -> EncoderWithHead:
    chosen = select(weights, name)
    loading.warn_of_assumed_heads(chosen)
    length = config.max_seq_length
    longest = chosen.architecture.encoder.max_position_embeddings
    if length and not 3 <= length <= longest:
        raise UserError(
            f"`max_seq_length` must be 3 to {longest}, the number of position "
            f"embeddings of {weights.origin}. Received: "
            f"max_seq_length={length}."
        )
    is_half = config.precision == "bfloat16"
    return loading.make(
        chosen,
        dtype="mixed_bfloat16" if is_half else "float32",
        **({"max_seq_length": length} if length else {}),
    )
