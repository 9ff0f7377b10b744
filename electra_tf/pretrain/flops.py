"""FLOPs of an update and of a training, by the paper's rules.

The cost of an update is a sum of passes, which the class of an objective lists.
The rules:
- Any mathematical operation on a number is one FLOP; a product of matrices
  [1, m] and [m, n] is 2 m n. Dropout is 4 a value, layer normalisation 5, GELU
  8, softmax 5.
- Training is 2 times forward. Differs: others count 3 times, since a product of
  matrices has two gradients.
- Reading an embedding is a product with a one-hot vector, 2 E V per token, and
  likewise for positions and segments, in each pass; or nothing for words with
  `sparse_embed_lookup`, which is nearly true in this package.
- Layer normalisation after attention is counted once for each token and not H
  times, an error of the original of under 0.3 % of a layer.
- The output layer counts only the positions whose word is predicted; the head
  that says "replaced" counts every position, padding too.
- Masking, sampling, the optimizer, a generator without a network, adversarial
  losses and predictions for whole rows count as nothing.

Counts are exact integers. Letters: L tokens in a row, H hidden, E embedding, V
vocabulary, A heads.

Source: the original's flops_computation.py; paper tables 1 and 2.
"""

import dataclasses
from collections.abc import Mapping

from electra_tf.config.model import BertConfig
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig

DROPOUT = 4  # draw, compare, multiply by the mask, rescale
LAYER_NORM = 5  # mean, square, sum, scale, shift
ACTIVATION = 8  # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
SOFTMAX = 5  # maximum, difference, exponential, sum, quotient
RESIDUAL = 1
TARGET = 2  # the loss: a product with a one-hot vector


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pass:
    """One network reads each row of a batch once."""

    network: BertConfig
    num_tokens: int  # in a row, L
    num_predictions: int = 0  # positions whose word is predicted by a softmax
    num_decisions: int = 0  # positions classified as replaced or not
    num_choices: int = 0  # positions whose word is chosen among candidates
    num_candidates: int = 0  # words to choose from at each of these
    is_trained: bool = True  # whether a backward pass follows
    num_towers: int = 1  # encoders side by side, whose joined states predict
    sparse_embed_lookup: bool = False  # whether reading a word costs nothing

    def forward(self) -> int:
        encoder = self.network.num_hidden_layers * self.block()
        encoder += self.embedding()
        return (
            self.num_towers * encoder
            + self.word_head(self.num_predictions, self.network.vocab_size)
            + self.word_head(self.num_choices, self.num_candidates)
            + self.binary_head()
        )

    def update(self) -> int:
        """Counts one row's share of an update, forward and backward."""
        return (2 if self.is_trained else 1) * self.forward()

    def embedding(self) -> int:
        """Counts the embedding of one row, from ids to hidden vectors."""
        network, width = self.network, self.network.embedding_size
        words = 0 if self.sparse_embed_lookup else network.vocab_size
        tables = words + self.num_tokens + network.type_vocab_size
        total = width * (2 * tables + 2 + LAYER_NORM + DROPOUT)
        if width != network.hidden_size:
            total += _linear(width, network.hidden_size)
        return self.num_tokens * total

    def block(self) -> int:
        """Counts one Transformer layer's forward pass on one row."""
        hidden, wide = self.network.hidden_size, self.network.intermediate_size
        feed_forward = (
            _linear(hidden, wide)
            + wide * ACTIVATION
            + _linear(wide, hidden)
            + hidden * (DROPOUT + RESIDUAL + LAYER_NORM)
        )
        return self.num_tokens * (self._attention() + feed_forward)

    def word_head(self, num_positions: int, num_words: int) -> int:
        """Counts the prediction of words on one row, with softmax and loss."""
        width = self.network.embedding_size
        hidden = _linear(self.num_towers * self.network.hidden_size, width)
        hidden += width * (ACTIVATION + LAYER_NORM)
        words = num_words * (2 * width + SOFTMAX + TARGET)
        return num_positions * (hidden + words)

    def binary_head(self) -> int:
        """Counts the classification of tokens on one row."""
        hidden = self.network.hidden_size
        one = _linear(hidden, hidden) + hidden * (ACTIVATION + 2)
        return self.num_decisions * one

    def _attention(self) -> int:
        hidden = self.network.hidden_size
        heads = self.network.num_attention_heads
        scores = 2 * hidden + heads * (1 + SOFTMAX + DROPOUT)  # 1: the scale
        return (
            3 * _linear(hidden, hidden)  # query, key, value
            + self.num_tokens * (scores + 2 * hidden)
            + _linear(hidden, hidden)
            + hidden * (DROPOUT + RESIDUAL)
            + LAYER_NORM
        )


def _linear(num_inputs: int, num_outputs: int) -> int:
    """Counts a dense layer with its bias, for one vector."""
    return 2 * num_inputs * num_outputs + num_outputs


def update_flops(parts: Mapping[str, Pass], batch_size: int) -> int:
    return batch_size * sum(part.update() for part in parts.values())


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes that the passes of an objective depend on."""

    config: PretrainingConfig
    vocab_size: int
    num_tokens: int  # in a row, L
    sparse_embed_lookup: bool = False

    @property
    def num_masked(self) -> int:
        """Masked slots in a row, N."""
        return self.config.masking.max_predictions_per_seq(self.num_tokens)

    def main(self, *, num_more_layers: int = 0, **counts: int) -> Pass:
        network = self.config.model.discriminator(self.vocab_size)
        num_layers = network.num_hidden_layers + num_more_layers
        network = dataclasses.replace(network, num_hidden_layers=num_layers)
        return self._pass(network, **counts)

    def generator(self, **counts: int) -> Pass:
        return self._pass(
            self.config.model.generator(self.vocab_size), **counts
        )

    def _pass(self, network: BertConfig, **counts: int) -> Pass:
        return Pass(
            network=network,
            num_tokens=self.num_tokens,
            sparse_embed_lookup=self.sparse_embed_lookup,
            **counts,
        )


def training_flops(
    config: PretrainingConfig,
    vocab_size: int,
    step: int,
    *,
    sparse_embed_lookup: bool = False,
) -> int:
    """Counts all updates up to a step."""
    objective = get_class(config.objective.objective)
    switch, total = objective.generator_steps(config), 0
    for phase in config.phases:
        sizes = Sizes(
            config, vocab_size, phase.max_seq_length, sparse_embed_lookup
        )
        first, last = phase.first_step, min(phase.end_step, step)
        for num_updates, passes in (
            (min(last, switch) - first, objective.generator_passes(sizes)),
            (last - max(first, switch), objective.passes(sizes)),
        ):
            update = update_flops(passes, phase.batch_size)
            total += max(0, num_updates) * update
    return total
