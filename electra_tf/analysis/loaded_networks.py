"""Loads the networks of a checkpoint for an analysis."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers
from electra_tf.model.networks import (
    ElectraDiscriminator,
    ElectraGenerator,
    EncoderWithHead,
)
from electra_tf.model.text_reader import require_row_length
from electra_tf.util import config_flags, files, storage

DISCRIMINATOR, MLM = "discriminator", "mlm"

_CONFIG = "config.json"
_DEFAULT_LENGTH = 512  # if the training is not known


class LoadOptions(NamedTuple):
    """Options of loading networks; replaces an `AnalysisConfig`.

    Attributes:
      vocab_file: vocabulary; "" for the one beside the checkpoint.
      max_seq_length: tokens in a row; 0 for as many as in training.
      precision: of the matrix products.
    """

    vocab_file: str = ""
    max_seq_length: int = 0
    precision: str = "float32"


def kind_of(network: EncoderWithHead) -> str:
    """Returns the name of the score a network gives; "" if it has no head."""
    if isinstance(network, ElectraGenerator):
        return MLM
    is_discriminator = isinstance(network, ElectraDiscriminator)
    return DISCRIMINATOR if is_discriminator else ""


def load(
    path: str, config: AnalysisConfig | LoadOptions
) -> Iterator[EncoderWithHead]:
    """Loads the networks of a checkpoint one by one, the main one first.

    Args:
      path: of the checkpoint.
      config: `vocab_file`, `max_seq_length` and `precision` are read.

    Yields:
      Networks, the first a discriminator if there is one.

    Raises:
      UserError: if the checkpoint cannot be read, has no vocabulary, or has
        fewer positions than `max_seq_length`.
    """
    weights = loading.read_with_vocabulary(path, config.vocab_file)
    training = training_of(weights)
    for name in weights.networks:
        chosen = select(weights, name)
        longest = chosen.architecture.encoder.max_position_embeddings
        length = row_length(config.max_seq_length, training, longest)
        yield loading.make(
            chosen,
            dtype=layers.policy_of(config.precision),
            max_seq_length=length,
        )


def by_kind(
    path: str, config: AnalysisConfig | LoadOptions
) -> dict[str, EncoderWithHead]:
    """Loads the networks of a checkpoint that have a head, by their scores.

    Args:
      path: of the checkpoint.
      config: as `load` takes it.

    Returns:
      The value of `kind_of` -> the first network of this kind.

    Raises:
      UserError: as `load`.
    """
    found: dict[str, EncoderWithHead] = {}
    for network in load(path, config):
        if kind := kind_of(network):
            found.setdefault(kind, network)
    return found


def training_of(weights: Weights) -> PretrainingConfig | None:
    """Reads the configuration of the run that wrote a checkpoint, if any.

    Args:
      weights: of the checkpoint.
    """
    path = storage.as_path(weights.origin).parent / _CONFIG
    is_bundle = not storage.is_directory(weights.origin.partition(",")[0])
    if not is_bundle or not storage.exists(path):
        return None
    parts = files.read_json(path)
    if not isinstance(parts, Mapping) or "objective" not in parts:
        return None  # of a fine-tuning, or somebody else's
    return config_flags.load_config(path, PretrainingConfig)


def row_length(
    given: int, training: PretrainingConfig | None, longest: int
) -> int:
    """Returns the row length in tokens: as given, as in training, or 512.

    Args:
      given: length in tokens; 0 for the default.
      training: of the networks; None if not known.
      longest: number of position embeddings.

    Raises:
      UserError: if the network cannot read rows of this length.
    """
    default = training.corpus.max_seq_length if training else _DEFAULT_LENGTH
    length = given or min(default, longest)
    require_row_length(length, longest)
    return length
