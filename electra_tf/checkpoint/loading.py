"""Keras networks from checkpoints of any format, and their weights back."""

import warnings

from electra_tf.checkpoint import checkpoint_formats
from electra_tf.checkpoint.architecture import (
    DISCRIMINATOR_HEAD,
    GENERATOR_HEAD,
    Architecture,
)
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.model.layers import Policy
from electra_tf.model.networks import (
    ElectraDiscriminator,
    ElectraGenerator,
    EncoderWithHead,
)
from electra_tf.model.text_reader import require_row_length
from electra_tf.util.errors import ElectraWarning, UserError

_DEFAULT_LENGTH = 512  # of rows, if that of the training is not known
_CLASSES = {
    DISCRIMINATOR_HEAD: ElectraDiscriminator,
    GENERATOR_HEAD: ElectraGenerator,
}


def load(
    path: str,
    network: str = "",
    expected: type[EncoderWithHead] = EncoderWithHead,
    *,
    vocab_file: str = "",
    **options: object,
) -> EncoderWithHead:
    """Loads a single network."""
    weights = checkpoint_formats.read(path, vocab_file=vocab_file)
    network = network or expected.NETWORK or weights.networks[0]
    weights = select(weights, network)
    warn_of_assumed_heads(weights)
    made = make(weights, **options)
    if not isinstance(made, expected):
        raise UserError(
            f"{weights.origin} must hold an {expected.__name__}. Received: "
            f"{type(made).__name__}, as its {network}. Use the class of this "
            "name, or electra_tf.ElectraBackbone for the encoder alone."
        )
    return made


def read_with_vocabulary(
    path: str, vocab_file: str = "", *, prefers_own: bool = False
) -> Weights:
    """Reads a checkpoint that must have a vocabulary."""
    preferred = "" if prefers_own else vocab_file
    weights = checkpoint_formats.read(path, vocab_file=preferred)
    if weights.vocabulary is None and vocab_file:
        weights = checkpoint_formats.read(path, vocab_file=vocab_file)
    if weights.vocabulary is None:
        raise UserError(
            "A network that reads text must have a vocabulary. Received: "
            f"{weights.origin}, with none beside it. Set --vocab_file."
        )
    warn_of_assumed_heads(weights)
    return weights


def warn_of_assumed_heads(weights: Weights) -> None:
    """Warns if the number of attention heads is assumed."""
    if weights.heads_are_assumed:
        heads = weights.architecture.encoder.num_attention_heads
        warnings.warn(
            f"No file beside {weights.origin} says how many attention heads "
            f"it has: {heads} are assumed. If that is wrong, convert it with "
            "electra_tf.convert_checkpoint --num_attention_heads.",
            ElectraWarning,
            stacklevel=4,
        )


def row_length(given: int, trained: int, longest: int) -> int:
    """Returns the row length in tokens: as given, as in training, or 512."""
    length = given or min(trained or _DEFAULT_LENGTH, longest)
    require_row_length(length, longest)
    return length


def tokenizer_options(weights: Weights) -> dict[str, bool]:
    """Returns the tokenizer's options; an unknown one is True."""
    return {
        "do_lower_case": weights.do_lower_case is not False,
        "strip_accents": weights.strip_accents is not False,
    }


def make(
    weights: Weights, dtype: Policy = None, **options: object
) -> EncoderWithHead:
    """Makes a network with its weights."""
    names = [name for name in _CLASSES if name in weights.architecture.heads]
    cls = _CLASSES[names[0]] if names else EncoderWithHead
    made = cls(
        weights.architecture.encoder,
        weights.vocabulary,
        dtype=dtype,
        **tokenizer_options(weights) | options,
    )
    for variable in made.weights:
        variable.assign(weights.arrays[variable.path])
    return made


def weights_of(network: EncoderWithHead) -> Weights:
    """Returns copies of the weights of a single network."""
    reader = network.reader
    heads = {cls: name for name, cls in _CLASSES.items()}
    return Weights(
        origin=network.name,
        arrays={v.path: v.numpy() for v in network.weights},
        architecture=Architecture(
            encoder=network.config,
            heads=tuple(filter(None, [heads.get(type(network))])),
        ),
        vocabulary=network.vocabulary,
        do_lower_case=reader and reader.do_lower_case,
        strip_accents=reader and reader.strip_accents,
    )
