"""Floating-point operations, by the paper's rules; needs no TensorFlow.

What a step costs is a sum of passes. A `Pass` is one network reading each row
once: an encoder, and what stands on it. An objective is a function from `Sizes`
to named passes; to add one, write it and add a line to `OBJECTIVES`.

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
  whole row.

Counts are exact integers. Letters: L tokens in a row, H hidden, E embedding, V
vocabulary, A heads.

Source: the original's flops_computation.py; paper tables 1 and 2.
"""

import dataclasses
from collections.abc import Callable, Mapping

from electra_tf.config.model import BertConfig
from electra_tf.model.flops_layers import (
    binary_head,
    block,
    choice_head,
    embedding,
    vocabulary_head,
)
from electra_tf.util.config_fields import one_of, require, require_choices
from electra_tf.util.errors import UserError


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
            + vocabulary_head(
                self.network, self.num_predictions, num_towers=self.num_towers
            )
            + binary_head(self.network, self.num_decisions)
            + choice_head(self.network, self.num_choices, self.num_candidates)
            + self._draws()
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
        return 2 * forward - self._draws()

    def _draws(self) -> int:
        return vocabulary_head(
            self.network, self.num_draws, num_towers=self.num_towers
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the cost of an update depends on, for any objective.

    Raises:
      UserError: if the type of the generator is unknown.
    """

    discriminator: BertConfig
    """The shape of the main encoder."""

    generator: BertConfig | None = None
    """The shape of the generator, or of each of its towers; where it shares all
    weights, the discriminator's. None where no network generates."""

    max_seq_length: int
    """Tokens in a row, L."""

    max_predictions_per_seq: int
    """Masked slots in a row, N."""

    generator_type: str = one_of(
        "transformer", "two_tower", "uniform", "unigram"
    )
    """What replaces tokens: an encoder that predicts the masked slots, two
    towers that predict every token, or chance, which costs nothing."""

    is_generator_trained: bool = True
    """False for a frozen generator, which runs forward only."""

    num_candidates: int = 5
    """Words that are chosen from at a position (mc_bert, teams)."""

    num_detection_layers: int = 1
    """Layers that a network has twice (teams)."""

    def __post_init__(self) -> None:
        require_choices(self)


Objective = Callable[[Sizes], dict[str, Pass]]


def _electra(sizes: Sizes) -> dict[str, Pass]:
    length = sizes.max_seq_length
    discriminator = Pass(
        network=sizes.discriminator, num_tokens=length, num_decisions=length
    )
    return {**generator_pass(sizes), "discriminator": discriminator}


def _frozen(sizes: Sizes) -> dict[str, Pass]:
    return _electra(dataclasses.replace(sizes, is_generator_trained=False))


def _mlm(sizes: Sizes) -> dict[str, Pass]:
    encoder = Pass(
        network=sizes.discriminator,
        num_tokens=sizes.max_seq_length,
        num_predictions=sizes.max_predictions_per_seq,
    )
    return {"encoder": encoder}


def _electric(sizes: Sizes) -> dict[str, Pass]:
    return _electra(dataclasses.replace(sizes, generator_type="two_tower"))


def _replace_mlm(sizes: Sizes) -> dict[str, Pass]:
    return {**generator_pass(sizes), **_mlm(sizes)}


def _all_tokens_mlm(sizes: Sizes) -> dict[str, Pass]:
    length = sizes.max_seq_length
    encoder = Pass(
        network=sizes.discriminator,
        num_tokens=length,
        num_predictions=length,
        num_decisions=length,
    )
    return {**generator_pass(sizes), "encoder": encoder}


def _script(sizes: Sizes) -> dict[str, Pass]:
    """One network reads twice; each score of a word is one of its verdicts."""
    length = sizes.max_seq_length
    critic = Pass(
        network=sizes.discriminator, num_tokens=length, num_predictions=length
    )
    return {**_mlm(sizes), "critic": critic}


def _mc_bert(sizes: Sizes) -> dict[str, Pass]:
    """The generator reads again for the words that are offered."""
    length = sizes.max_seq_length
    parts = generator_pass(sizes)
    parts["offers"] = dataclasses.replace(
        parts["generator"],
        num_predictions=0,
        num_draws=length,
        is_trained=False,
    )
    encoder = Pass(
        network=sizes.discriminator,
        num_tokens=length,
        num_choices=length,
        num_candidates=sizes.num_candidates + 1,  # <neither>, words, the truth
    )
    return {**parts, "encoder": encoder}


def _coco_lm(sizes: Sizes) -> dict[str, Pass]:
    """The crop is counted as long as the row."""
    length = sizes.max_seq_length
    parts = generator_pass(sizes)
    if "generator" in parts and sizes.discriminator.has_dropout:
        parts["sampler"] = dataclasses.replace(
            parts["generator"], is_trained=False
        )
    encoder = Pass(
        network=sizes.discriminator,
        num_tokens=length,
        num_predictions=sizes.max_predictions_per_seq,
        num_decisions=length,
    )
    crop = Pass(network=sizes.discriminator, num_tokens=length)
    return {**parts, "discriminator": encoder, "crop": crop}


def _teams(sizes: Sizes) -> dict[str, Pass]:
    """What the discriminator has of its own counts as further layers."""
    bert = sizes.discriminator
    num_layers = bert.num_hidden_layers + sizes.num_detection_layers
    encoder = Pass(
        network=dataclasses.replace(bert, num_hidden_layers=num_layers),
        num_tokens=sizes.max_seq_length,
        num_decisions=sizes.max_seq_length,
        num_choices=sizes.max_predictions_per_seq,
        num_candidates=sizes.num_candidates,
    )
    return {**generator_pass(sizes), "discriminator": encoder}


OBJECTIVES: Mapping[str, Objective] = {
    "adversarial": _electra,
    "coco_lm": _coco_lm,
    "electra": _electra,
    "electra_15": _electra,
    "electra_sentence": _electra,
    "electric": _electric,
    "fast_electra": _frozen,
    "mc_bert": _mc_bert,
    "mlm": _mlm,
    "mlm_sentence": _mlm,
    "replace_mlm": _replace_mlm,
    "all_tokens_mlm": _all_tokens_mlm,
    "script": _script,
    "teams": _teams,
    "two_stage": _frozen,  # once the generator is: before, `first_stage`
}
"""What each objective computes, by its name in `pretrain/objectives`."""


def generator_pass(sizes: Sizes) -> dict[str, Pass]:
    """Returns what the generator computes: one pass, or none.

    Raises:
      UserError: if its shape is not given.
    """
    if sizes.generator_type in ("uniform", "unigram"):
        return {}
    if sizes.generator is None:
        raise UserError(
            "`generator` must be a shape for "
            f"generator_type={sizes.generator_type}. Received: None."
        )
    has_towers = sizes.generator_type == "two_tower"
    length, slots = sizes.max_seq_length, sizes.max_predictions_per_seq
    generator = Pass(
        network=sizes.generator,
        num_tokens=length,
        num_predictions=length if has_towers else slots,
        num_towers=2 if has_towers else 1,
        is_trained=sizes.is_generator_trained,
    )
    return {"generator": generator}


def first_stage(sizes: Sizes) -> dict[str, Pass]:
    """Returns what an update of two_stage computes before the switch.

    Raises:
      UserError: if the generator's shape is not given.
    """
    return generator_pass(sizes)


def passes(objective: str, sizes: Sizes) -> dict[str, Pass]:
    """Returns what one update computes, by the name of the network.

    Args:
      objective: one of `OBJECTIVES`.
      sizes: of networks and rows.

    Raises:
      UserError: if the objective is unknown, or its generator is not given.
    """
    if objective not in OBJECTIVES:
        raise UserError(
            f"`objective` must be one of {', '.join(OBJECTIVES)} for its FLOPs "
            f"to be counted. Received: objective={objective!r}."
        )
    return OBJECTIVES[objective](sizes)


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
