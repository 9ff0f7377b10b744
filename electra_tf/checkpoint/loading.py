"""Networks in Keras from a checkpoint of any format."""

from typing import NamedTuple

import keras

from electra_tf.checkpoint import checkpoint_formats
from electra_tf.checkpoint.architecture import (
    DISCRIMINATOR_HEAD,
    GENERATOR_HEAD,
)
from electra_tf.checkpoint.weights import Weights, select
from electra_tf.model import heads
from electra_tf.model.layers import Policy
from electra_tf.model.modeling import BertModel


class Network(NamedTuple):
    """An encoder with its pre-training head.

    Attributes:
      encoder: reads `input_ids`, `input_mask` and `segment_ids`.
      head: a `DiscriminatorPredictions`, which reads the encoder's states; a
        `GeneratorPredictions`, which reads them and the table of word
        embeddings; or None if the checkpoint has none.
      weights: what they were read from, with vocabulary and sizes.
    """

    encoder: BertModel
    head: keras.layers.Layer | None
    weights: Weights


def load(path: str, network: str = "") -> Network:
    """Loads a network that stands alone.

    Where no file says how many attention heads it has, one for every 64 of its
    width is taken, and `weights.heads_are_assumed` is set.

    Args:
      path: of a checkpoint of the original's, of ours, or of Hugging Face's;
        as `checkpoint_formats.read` takes it.
      network: "discriminator", "corrector" or "generator". Default: the
        first of these that there is.

    Returns:
      The network, with its weights.

    Raises:
      UserError: if the checkpoint cannot be read or has no such network.
    """
    loaded = checkpoint_formats.read(path)
    return make(select(loaded, network or loaded.networks[0]))


def make(weights: Weights, dtype: Policy = None) -> Network:
    """Makes the layers of a network and gives them its weights.

    Args:
      weights: of one network, as `weights.select` returns it.
      dtype: policy of the encoder. Default: Keras' global one.
    """
    config = weights.architecture.encoder
    encoder = BertModel(config, name="electra", dtype=dtype)
    encoder.build((None, None))
    head = None
    if DISCRIMINATOR_HEAD in weights.architecture.heads:
        head = heads.DiscriminatorPredictions(
            config.hidden_size, config.initializer_range
        )
    elif GENERATOR_HEAD in weights.architecture.heads:
        head = heads.GeneratorPredictions(
            config.embedding_size, config.vocab_size, config.initializer_range
        )
    if head is not None:
        head.build((None, None, config.hidden_size))
    layers = [encoder] if head is None else [encoder, head]
    for layer in layers:
        for variable in layer.variables:
            variable.assign(weights.arrays[variable.path])
    return Network(encoder, head, weights)
