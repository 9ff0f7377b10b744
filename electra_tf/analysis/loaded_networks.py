"""Loads the networks of a checkpoint for an analysis."""

from collections.abc import Mapping
from typing import NamedTuple

from etils import epath

from electra_tf.checkpoint import bundles, loading
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers
from electra_tf.model.networks import (
    ElectraDiscriminator,
    ElectraGenerator,
    EncoderWithHead,
)
from electra_tf.util import files
from electra_tf.util.flags import CONFIG_FILE, load_config

DISCRIMINATOR, MLM = "discriminator", "mlm"


class LoadOptions(NamedTuple):
    """How to load networks: the fields of `AnalysisConfig` that `load`
    reads."""

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
    path: str,
    config: AnalysisConfig | LoadOptions,
    *,
    prefers_own_vocabulary: bool = False,
) -> EncoderWithHead:
    """Loads the main network of a checkpoint."""
    weights = loading.read_with_vocabulary(
        path, config.vocab_file, prefers_own=prefers_own_vocabulary
    )
    return _make(weights, weights.networks[0], config)


def by_kind(
    path: str,
    config: AnalysisConfig | LoadOptions,
    *,
    prefers_own_vocabulary: bool = False,
) -> dict[str, EncoderWithHead]:
    """Loads the networks of a checkpoint that give a score, by their scores."""
    weights = loading.read_with_vocabulary(
        path, config.vocab_file, prefers_own=prefers_own_vocabulary
    )
    names = [name for name in weights.networks if name != "corrector"]
    found: dict[str, EncoderWithHead] = {}
    for name in names:
        network = _make(weights, name, config)
        if kind := kind_of(network):
            found.setdefault(kind, network)
    return found


def _make(
    weights: Weights, name: str, config: AnalysisConfig | LoadOptions
) -> EncoderWithHead:
    chosen = select(weights, name)
    longest = chosen.architecture.encoder.max_position_embeddings
    return loading.make(
        chosen,
        dtype=layers.policy_of(config.precision),
        max_seq_length=loading.row_length(
            config.max_seq_length, weights.max_seq_length, longest
        ),
    )


def training_of(weights: Weights) -> PretrainingConfig | None:
    """Reads the configuration of the run that wrote a checkpoint, if any."""
    path = epath.Path(weights.origin).parent / CONFIG_FILE
    first, *_ = bundles.split_paths(weights.origin)
    is_bundle = not epath.Path(first).is_dir()
    if not is_bundle or not path.exists():
        return None
    parts = files.read_json(path)
    if not isinstance(parts, Mapping) or "objective" not in parts:
        return None  # of a fine-tuning, or somebody else's
    return load_config(path, PretrainingConfig)
