"""FLOPs of an update and of a training, by the paper's rules.

The cost of an update is a sum of passes. A `Pass` is one network reading each
row once: an encoder with its heads. The traits of an objective
(`config/objective_traits.py`) list its passes. No TensorFlow is needed.

The rules:
- One mathematical operation is one FLOP, even a division or an exponential.
  A product of matrices [1, m] and [m, n] is 2 m n: multiplications and
  additions are counted separately.
- The backward pass costs as much as the forward pass, so that training is 2
  times forward. Differs: others count 3 times, since a product of matrices has
  two gradients. Compare only figures that follow the same rule.
- Reading an embedding is a product with a one-hot vector, 2 E V per token, and
  likewise for positions and segments. With `sparse_embed_lookup` reading a word
  costs nothing, which is nearly true where rows are gathered, as in this
  package. Each pass counts its own embedding lookups, even where tables are
  shared.
- For each value: dropout 4, layer normalisation 5, GELU 8, softmax 5.
- Layer normalisation after attention is counted once for each token and not H
  times: an error of the original, kept to reproduce its figures; under 0.3 %
  of a layer.
- The output layer counts only the positions whose word is predicted; the head
  that says "replaced" counts every position, padding too.
- Masking, sampling, the optimizer, a uniform or unigram generator, the
  adversarial loss of a generator and predictions for whole rows count as
  nothing. Every row counts as the longest of its phase.

Counts are exact integers. Letters: L tokens in a row, H hidden, E embedding, V
vocabulary, A heads.

Source: the original's flops_computation.py; paper tables 1 and 2.
"""

import dataclasses
from collections.abc import Mapping

from electra_tf.config.model import BertConfig
from electra_tf.config.objective_traits import TRAITS, PassTraits
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
    """The shape of the encoder."""

    num_tokens: int
    """Tokens in a row, L."""

    num_predictions: int = 0
    """Positions in a row whose word is predicted, by a softmax over V."""

    in_blocks: bool = False
    """Whether that softmax is computed in blocks of positions."""

    num_decisions: int = 0
    """Positions in a row that are classified: "replaced" or not."""

    num_scored: int = 0
    """Positions in a row whose word is scored by the same softmax without
    being learned; forward only."""

    num_choices: int = 0
    """Positions in a row whose word is chosen among `num_candidates`."""

    num_candidates: int = 0
    """Words to choose from at each of the `num_choices` positions."""

    is_trained: bool = True
    """Whether a backward pass follows."""

    num_towers: int = 1
    """Encoders side by side, whose joined states predict the words; 2 for
    left-to-right with right-to-left."""

    attention_width: int | None = None
    """Queries, keys and values of all heads together. Default: H."""

    num_attentions: int = 1
    """Attentions in a layer; 2 in a decoder that also attends to an encoder."""

    sparse_embed_lookup: bool = False
    """Whether reading a word costs nothing."""

    def forward(self) -> int:
        """Counts the forward pass on one row."""
        encoder = self.embedding() + (
            self.network.num_hidden_layers * self.block()
        )
        return (
            self.num_towers * encoder
            + self._predictions(self.num_predictions + self.num_scored)
            + self.word_head(self.num_choices, self.num_candidates)
            + self.binary_head()
        )

    def update(self) -> int:
        """Counts one row's share of an update, forward and backward."""
        if not self.is_trained:
            return self.forward()
        return 2 * self.forward() - self._predictions(self.num_scored)

    def embedding(self) -> int:
        """Counts the embedding of one row, from ids to hidden vectors."""
        network, width = self.network, self.network.embedding_size
        words = 0 if self.sparse_embed_lookup else network.vocab_size
        tables = words + self.num_tokens + network.type_vocab_size
        add_and_normalise = width * (2 + LAYER_NORM + DROPOUT)
        project = 0
        if width != network.hidden_size:
            project = _linear(width, network.hidden_size)
        return self.num_tokens * (
            2 * width * tables + add_and_normalise + project
        )

    def block(self) -> int:
        """Counts one Transformer layer's forward pass on one row."""
        attentions = self.num_attentions * self._attention()
        return self.num_tokens * (attentions + _feed_forward(self.network))

    def word_head(self, num_positions: int, num_words: int) -> int:
        """Counts the prediction of words on one row, softmax and loss
        included."""
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

    def _predictions(self, num_positions: int) -> int:
        """Counts words predicted by a softmax over the vocabulary."""
        return self.word_head(num_positions, self.network.vocab_size)

    def _attention(self) -> int:
        """Counts self-attention, for one query."""
        hidden = self.network.hidden_size
        width = self.attention_width or hidden
        heads = self.network.num_attention_heads
        scores = 2 * width + heads * (1 + SOFTMAX + DROPOUT)  # 1: the scale
        return (
            3 * _linear(hidden, width)  # query, key, value
            + self.num_tokens * (scores + 2 * hidden)
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


def update_flops(parts: Mapping[str, Pass], batch_size: int) -> int:
    """Counts the floating-point operations of one update of training."""
    return batch_size * sum(part.update() for part in parts.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the cost of an update depends on, for any objective."""

    discriminator: BertConfig
    """The shape of the main encoder."""

    generator: BertConfig | None = None
    """The shape of the generator, or of each of its towers; the discriminator's
    if they share all weights. None if the generator is not a network."""

    max_seq_length: int
    """Tokens in a row, L."""

    max_predictions_per_seq: int
    """Masked slots in a row, N."""

    generator_type: str = "transformer"
    """The generator: an encoder that predicts the masked slots; "two_tower",
    which predict every token; or "uniform" or "unigram", which cost nothing."""

    is_generator_trained: bool = True
    """False for a frozen generator, which runs forward only."""

    num_candidates: int = 5
    """Words to choose from at a position (mc_bert, teams)."""

    num_detection_layers: int = 1
    """Layers of the main encoder that exist twice (teams)."""

    sparse_embed_lookup: bool = False
    """Whether reading a word costs nothing."""


def sizes_of(
    config: PretrainingConfig,
    vocab_size: int,
    max_seq_length: int = 0,
    *,
    sparse_embed_lookup: bool = False,
) -> Sizes:
    """Returns the sizes on which the cost of an update depends."""
    length = max_seq_length or config.corpus.max_seq_length
    return Sizes(
        discriminator=config.model.discriminator(vocab_size),
        generator=config.model.generator(vocab_size),
        max_seq_length=length,
        max_predictions_per_seq=config.masking.max_predictions_per_seq(length),
        generator_type=config.objective.generator_type,
        is_generator_trained=not config.objective.has_frozen_generator,
        num_candidates=config.selection.num_candidates,
        num_detection_layers=config.selection.num_detection_layers,
        sparse_embed_lookup=sparse_embed_lookup,
    )


def passes(objective: str, sizes: Sizes) -> dict[str, Pass]:
    """Returns the passes of the last update, by the name of the network."""
    traits = TRAITS[objective]
    if traits.frozen_generator == "always" or traits.trains_generator_first:
        sizes = dataclasses.replace(sizes, is_generator_trained=False)
    if traits.two_towers == "always":
        sizes = dataclasses.replace(sizes, generator_type="two_tower")
    parts = generator_pass(sizes) if traits.has_own_generator else {}
    generator = parts.get("generator")
    for name, pass_traits in traits.passes.items():
        is_made = (
            sizes.discriminator.has_dropout or not pass_traits.needs_dropout
        )
        if is_made and (generator or not pass_traits.by_generator):
            parts[name] = _make_pass(pass_traits, sizes, generator)
    return parts


def generator_pass(sizes: Sizes) -> dict[str, Pass]:
    """Returns the pass of the generator, if it is a network."""
    if sizes.generator_type in ("uniform", "unigram"):
        return {}
    has_towers = sizes.generator_type == "two_tower"
    length, slots = sizes.max_seq_length, sizes.max_predictions_per_seq
    generator = Pass(
        network=sizes.generator,
        num_tokens=length,
        num_predictions=length if has_towers else slots,
        num_towers=2 if has_towers else 1,
        is_trained=sizes.is_generator_trained,
        sparse_embed_lookup=sizes.sparse_embed_lookup,
    )
    return {"generator": generator}


def _make_pass(
    pass_traits: PassTraits, sizes: Sizes, generator: Pass | None
) -> Pass:
    """Returns a pass other than the generator's own."""
    length, bert = sizes.max_seq_length, sizes.discriminator
    counts = {"masked": sizes.max_predictions_per_seq, "all": length, "": 0}
    more_layers = sizes.num_detection_layers * pass_traits.has_more_layers
    made = Pass(
        network=dataclasses.replace(
            bert, num_hidden_layers=bert.num_hidden_layers + more_layers
        ),
        num_tokens=length,
        num_predictions=counts[pass_traits.predictions],
        in_blocks=pass_traits.in_blocks,
        num_decisions=counts[pass_traits.decisions],
        num_scored=counts[pass_traits.scored],
        num_choices=counts[pass_traits.choices],
        num_candidates=sizes.num_candidates + pass_traits.more_candidates
        if pass_traits.choices
        else 0,
        sparse_embed_lookup=sizes.sparse_embed_lookup,
    )
    if not pass_traits.by_generator:
        return made
    return dataclasses.replace(
        made,
        network=generator.network,
        num_towers=generator.num_towers,
        is_trained=False,
    )


def training_flops(
    config: PretrainingConfig,
    vocab_size: int,
    step: int,
    *,
    sparse_embed_lookup: bool = False,
) -> int:
    """Counts all updates up to a step."""
    total, num_steps = 0, config.training.num_train_steps
    objective, switch = config.objective, 0
    if objective.traits.trains_generator_first:
        switch = config.two_stage.first_steps(num_steps)
    for phase in config.phases:
        sizes = sizes_of(
            config,
            vocab_size,
            phase.max_seq_length,
            sparse_embed_lookup=sparse_embed_lookup,
        )
        stages = (
            (0, switch, generator_pass(sizes)),
            (switch, num_steps, passes(objective.objective, sizes)),
        )
        for begin, end, parts in stages:
            first = max(begin, phase.first_step)
            last = min(end, phase.end_step, step)
            update = update_flops(parts, phase.batch_size)
            total += max(0, last - first) * update
    return total
