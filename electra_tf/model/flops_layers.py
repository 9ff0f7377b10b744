"""Floating-point operations of the parts of a network, in the forward pass.

`flops` says what counts as one.

Source: the original's flops_computation.py.
"""

from electra_tf.config.model import BertConfig

DROPOUT = 4  # draw, compare, multiply by the mask, rescale
LAYER_NORM = 5  # mean, square, sum, scale, shift
ACTIVATION = 8  # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
SOFTMAX = 5  # maximum, difference, exponential, sum, quotient
RESIDUAL = 1
TARGET = 2  # the loss: a product with a one-hot vector


def block(
    network: BertConfig,
    num_tokens: int,
    *,
    attention_width: int | None = None,
    num_attentions: int = 1,
) -> int:
    """Counts one Transformer layer's forward pass on one row.

    Args:
      network: the shape of the encoder.
      num_tokens: tokens in the row.
      attention_width: as in `Pass`.
      num_attentions: as in `Pass`.

    Returns:
      FLOPs.
    """
    width = attention_width or network.hidden_size
    attention = _attention(network, num_tokens, width)
    return num_tokens * (num_attentions * attention + _feed_forward(network))


def embedding(
    network: BertConfig, num_tokens: int, *, sparse_embed_lookup: bool = False
) -> int:
    """Counts what turns the ids of one row into the first hidden vectors.

    Args:
      network: the shape of the encoder.
      num_tokens: tokens in the row.
      sparse_embed_lookup: whether to count the reading of words as nothing.

    Returns:
      FLOPs.
    """
    width, hidden = network.embedding_size, network.hidden_size
    words = 0 if sparse_embed_lookup else 2 * width * network.vocab_size
    others = 2 * width * (num_tokens + network.type_vocab_size)
    add_and_normalise = width * (2 + LAYER_NORM + DROPOUT)
    project = 0 if width == hidden else _linear(width, hidden)
    return num_tokens * (words + others + add_and_normalise + project)


def vocabulary_head(
    network: BertConfig, num_predictions: int, *, num_towers: int = 1
) -> int:
    """Counts the prediction of words on one row, softmax and loss included.

    Args:
      network: the shape of the encoder, or of each tower.
      num_predictions: positions in the row whose word is predicted.
      num_towers: encoders whose states are joined.

    Returns:
      FLOPs.
    """
    width = network.embedding_size
    hidden = _linear(num_towers * network.hidden_size, width)
    hidden += width * (ACTIVATION + LAYER_NORM)
    words = network.vocab_size * (2 * width + SOFTMAX + TARGET)
    return num_predictions * (hidden + words)


def choice_head(
    network: BertConfig, num_choices: int, num_candidates: int
) -> int:
    """Counts the choice among a few words on one row.

    Args:
      network: the shape of the encoder.
      num_choices: positions in the row.
      num_candidates: words at each.

    Returns:
      FLOPs.
    """
    width = network.embedding_size
    hidden = _linear(network.hidden_size, width)
    hidden += width * (ACTIVATION + LAYER_NORM)
    words = num_candidates * (2 * width + SOFTMAX + TARGET)
    return num_choices * (hidden + words)


def binary_head(network: BertConfig, num_decisions: int) -> int:
    """Counts the classification of tokens on one row.

    Args:
      network: the shape of the encoder.
      num_decisions: positions in the row that are classified.

    Returns:
      FLOPs.
    """
    hidden = network.hidden_size
    return num_decisions * (_linear(hidden, hidden) + hidden * (ACTIVATION + 2))


def _attention(network: BertConfig, num_keys: int, width: int) -> int:
    """Counts self-attention, for one query.

    The weighted sum and the output take H where they should take `width`: so
    does the original, for T5.
    """
    hidden, heads = network.hidden_size, network.num_attention_heads
    scores = 2 * width + heads * (1 + SOFTMAX + DROPOUT)  # 1: the scale
    return (
        3 * _linear(hidden, width)  # query, key, value
        + num_keys * (scores + 2 * hidden)
        + _linear(hidden, hidden)
        + hidden * (DROPOUT + RESIDUAL)
        + LAYER_NORM
    )


def _feed_forward(network: BertConfig) -> int:
    """Counts the feed-forward half of a layer, for one token."""
    hidden, wide = network.hidden_size, network.intermediate_size
    return (
        _linear(hidden, wide)
        + wide * ACTIVATION
        + _linear(wide, hidden)
        + hidden * (DROPOUT + RESIDUAL + LAYER_NORM)
    )


def _linear(num_inputs: int, num_outputs: int) -> int:
    """Counts a dense layer with its bias, for one vector."""
    return 2 * num_inputs * num_outputs + num_outputs
