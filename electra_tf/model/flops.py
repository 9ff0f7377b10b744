"""Floating-point operations, by the paper's rules; needs no TensorFlow.

The cost of an update is a sum of passes. A `Pass` is one network reading each
row once: an encoder, and what stands on it. What passes an objective
makes is in `pretrain/training_flops.py`.

The rules:
- One operation of mathematics is one FLOP, also a division or an exponential.
  A product of matrices [1, m] and [m, n] is 2 m n, multiplications and
  additions counted apart.
- The backward pass costs as much as the forward pass, so that training is 2
  times forward. Differs: others count 3 times, since a product of matrices has
  two gradients. Compare figures of one rule only.
- Reading an embedding is a product with a one-hot vector, 2 E V a token, and
  likewise for positions and segments. With `sparse_embed_lookup` reading a word
  costs nothing, as it nearly does where rows are gathered, in this package too.
  Every pass reads for itself, also from tables that it shares.
- For each value: dropout 4, layer normalisation 5, GELU 8, softmax 5.
- Layer normalisation after attention is counted once for each token and not H
  times: a slip of the original, kept for its figures; under 0.3 % of a layer.
- The output layer counts only the positions whose word is predicted; the head
  that says "replaced" counts every position, padding too.
- Masking, sampling, the optimizer and a uniform or unigram generator count as
  nothing, nor does what makes a generator adversarial, or what is said of a
  whole row. A row counts as long as the longest of its phase.

Counts are exact integers. Letters: L tokens in a row, H hidden, E embedding, V
vocabulary, A heads.

Source: the original's flops_computation.py; paper tables 1 and 2.
"""

import dataclasses
from collections.abc import Mapping

from electra_tf.config.model import BertConfig
from electra_tf.util.config_fields import require

DROPOUT = 4  # draw, compare, multiply by the mask, rescale
LAYER_NORM = 5  # mean, square, sum, scale, shift
ACTIVATION = 8  # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
SOFTMAX = 5  # maximum, difference, exponential, sum, quotient
RESIDUAL = 1
TARGET = 2  # the loss: a product with a one-hot vector


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pass:
    """One network reads each row of a batch once.

    Raises:
      UserError: if a count is out of range.
    """

    network: BertConfig
    """The shape of the encoder."""

    num_tokens: int
    """Tokens in a row, L."""

    num_predictions: int = 0
    """Positions in a row whose word is predicted, by a softmax over V."""

    num_decisions: int = 0
    """Positions in a row that are classified: "replaced" or not."""

    num_draws: int = 0
    """Positions in a row whose word is scored by the same softmax without
    being learned; forward only."""

    num_choices: int = 0
    """Positions in a row whose word is chosen among `num_candidates`."""

    num_candidates: int = 0
    """Words that are chosen from at each of these."""

    is_trained: bool = True
    """A backward pass follows."""

    num_towers: int = 1
    """Encoders side by side, whose joined states predict the words; 2 for
    left-to-right with right-to-left."""

    attention_width: int | None = None
    """Queries, keys and values of all heads together. Default: H."""

    num_attentions: int = 1
    """Attentions in a layer; 2 in a decoder that reads an encoder too."""

    def __post_init__(self) -> None:
        positive = "num_tokens num_towers attention_width num_attentions"
        positions = "num_predictions num_decisions num_draws num_choices"
        expected = f"from 0 to num_tokens={self.num_tokens}"
        require(self, positive, "at least 1", lambda n: n >= 1)
        require(self, positions, expected, lambda n: 0 <= n <= self.num_tokens)

    def forward(self, *, sparse_embed_lookup: bool = False) -> int:
        """Counts the forward pass on one row.

        Args:
          sparse_embed_lookup: whether to count the reading of words as
            nothing.

        Returns:
          FLOPs.
        """
        layer = block(
            self.network,
            self.num_tokens,
            attention_width=self.attention_width,
            num_attentions=self.num_attentions,
        )
        encoder = self.network.num_hidden_layers * layer + embedding(
            self.network,
            self.num_tokens,
            sparse_embed_lookup=sparse_embed_lookup,
        )
        return (
            self.num_towers * encoder
            + self._predictions(self.num_predictions + self.num_draws)
            + binary_head(self.network, self.num_decisions)
            + word_head(self.network, self.num_choices, self.num_candidates)
        )

    def update(self, *, sparse_embed_lookup: bool = False) -> int:
        """Counts one row's share of an update, forward and backward.

        Args:
          sparse_embed_lookup: whether to count the reading of words as
            nothing.

        Returns:
          FLOPs.
        """
        forward = self.forward(sparse_embed_lookup=sparse_embed_lookup)
        if not self.is_trained:
            return forward
        return 2 * forward - self._predictions(self.num_draws)

    def _predictions(self, count: int) -> int:
        """Counts words predicted by a softmax over the vocabulary."""
        size, towers = self.network.vocab_size, self.num_towers
        return word_head(self.network, count, size, num_towers=towers)


def update_flops(
    parts: Mapping[str, Pass],
    batch_size: int,
    *,
    sparse_embed_lookup: bool = False,
) -> int:
    """Counts one update of training.

    Args:
      parts: what `passes` returned.
      batch_size: rows in an update.
      sparse_embed_lookup: whether to count the reading of words as nothing.

    Returns:
      FLOPs.
    """
    return batch_size * sum(
        part.update(sparse_embed_lookup=sparse_embed_lookup)
        for part in parts.values()
    )


def inference_flops(
    network: BertConfig, num_tokens: int, *, sparse_embed_lookup: bool = False
) -> int:
    """Counts the forward pass of encoder and binary head on one row.

    Args:
      network: the shape of the encoder.
      num_tokens: tokens in the row; the paper's table 1 has 128.
      sparse_embed_lookup: whether to count the reading of words as nothing.

    Returns:
      FLOPs.
    """
    whole = Pass(
        network=network, num_tokens=num_tokens, num_decisions=num_tokens
    )
    return whole.forward(sparse_embed_lookup=sparse_embed_lookup)


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


def word_head(
    network: BertConfig,
    num_predictions: int,
    num_words: int,
    *,
    num_towers: int = 1,
) -> int:
    """Counts the prediction of words on one row, softmax and loss included.

    Args:
      network: the shape of the encoder, or of each tower.
      num_predictions: positions in the row whose word is predicted.
      num_words: the softmax is over: the vocabulary, or a few candidates.
      num_towers: encoders whose states are joined.

    Returns:
      FLOPs.
    """
    width = network.embedding_size
    hidden = _linear(num_towers * network.hidden_size, width)
    hidden += width * (ACTIVATION + LAYER_NORM)
    words = num_words * (2 * width + SOFTMAX + TARGET)
    return num_predictions * (hidden + words)


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
