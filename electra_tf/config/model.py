"""The shapes of encoders."""

import dataclasses

from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, bounded, one_of

TABLES = ("word_embeddings", "token_type_embeddings", "position_embeddings")
"""The embedding tables of an encoder: their variables' names."""

DIFFERENCE = "_difference"
"""Suffix of the name of a table that is added to the generator's table."""


# Width H, layers, and embedding size if not H. Source: ELECTRA paper, table 6.
SIZES = {
    "small": (256, 12, 128),
    "base": (768, 12, None),
    "large": (1024, 24, None),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommonConfig(Checked):
    """Fields that discriminator and generator have in common."""

    hidden_dropout_prob: float = bounded(0.1, 0, 1)
    """Dropout rate of hidden states in training."""
    attention_probs_dropout_prob: float = bounded(0.1, 0, 1)
    """Dropout rate of attention weights in training."""
    max_position_embeddings: int = bounded(512, 1)
    """Number of position embeddings: the maximum tokens of a row."""
    initializer_range: float = bounded(0.02, 0, 1)
    """Standard deviation of the truncated normal initializer of weights."""
    attention_initializer: str = one_of("truncated_normal", "neighbours")
    """Initial attention: uniform, as in the original, or biased in each head
    towards one of the nearest tokens, which small budgets learn from sooner."""

    @property
    def has_dropout(self) -> bool:
        """True if any dropout rate is positive."""
        rates = (self.hidden_dropout_prob, self.attention_probs_dropout_prob)
        return any(rate > 0 for rate in rates)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig(CommonConfig):
    """The shape of one encoder.

    The activation is always the exact (erf) GELU, and the epsilon of layer
    normalization 1e-12. Source: `BertConfig` in the original's
    `model/modeling.py`.

    Raises:
      UserError: if a value is out of range, or two do not fit.
    """

    vocab_size: int
    """Word pieces in the vocabulary, V."""
    hidden_size: int
    """Width of the hidden vectors, H."""
    num_hidden_layers: int
    """Transformer layers."""
    num_attention_heads: int
    """Attention heads in each layer, A; divides `hidden_size`."""
    intermediate_size: int
    """Width of the feed-forward layers."""
    embedding_size: int
    """Width of the embedding tables, E; projected to H where it differs."""
    type_vocab_size: int = bounded(2, 1)
    """Number of segment types."""

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, width = self.num_attention_heads, self.hidden_size
        if heads < 1 or width % heads:
            raise UserError(
                f"num_attention_heads={heads} does not divide "
                f"hidden_size={width}."
            )
        is_biased = self.attention_initializer == "neighbours"
        if is_biased and self.embedding_size % 2:
            raise UserError(
                "attention_initializer=neighbours needs an even embedding "
                f"size: {self.embedding_size}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(CommonConfig):
    """The shapes of discriminator and generator.

    Differs: the original's overrides of heads and feed-forward width do not
    apply to the generator; here it has its own number of heads.
    """

    model_size: str = one_of(*SIZES)
    """256 x 12 (width x layers), 768 x 12 or 1024 x 24."""
    hidden_size: int | None = bounded(None, 1)
    """Width of the hidden vectors, H. Default: by `model_size`."""
    num_hidden_layers: int | None = bounded(None, 1)
    """Transformer layers. Default: by `model_size`."""
    num_attention_heads: int | None = bounded(None, 1)
    """Attention heads in each layer. Default: one for every 64 of H."""
    intermediate_size: int | None = bounded(None, 1)
    """Width of the feed-forward layers. Default: 4 H."""
    embedding_size: int | None = bounded(None, 1)
    """Width of the embedding tables. Default: 128 for small, else H."""
    generator_layers: float = bounded(1.0, 0, 1)
    """Layers of the generator, as a fraction of the discriminator's."""
    generator_hidden_size: float = bounded(0.25, 0, 1)
    """Width of the generator's hidden vectors, as a fraction of H."""
    generator_num_attention_heads: int | None = bounded(None, 1)
    """Attention heads of the generator. Default: one for every 64 units."""
    generator_sharing: str = one_of(
        "embeddings",
        "token_and_position_embeddings",
        "token_embeddings",
        "gradient_disentangled",
        "none",
        "all",
    )
    """What generator and discriminator share: all embedding tables, as in the
    original; tables of tokens and positions, as in the paper; of tokens alone;
    tables to which the discriminator adds differences without training them
    (DeBERTaV3); nothing; or all weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.discriminator(vocab_size=1)  # checks the sizes
        self.generator(vocab_size=1)

    def discriminator(self, vocab_size: int) -> BertConfig:
        """Returns the shape of the discriminator for a vocabulary."""
        hidden, layers, embedding = SIZES[self.model_size]
        hidden = self.hidden_size or hidden
        common = dataclasses.fields(CommonConfig)
        return BertConfig(
            vocab_size=vocab_size,
            hidden_size=hidden,
            num_hidden_layers=self.num_hidden_layers or layers,
            num_attention_heads=self.num_attention_heads
            or default_num_attention_heads(hidden),
            intermediate_size=self.intermediate_size or 4 * hidden,
            embedding_size=self.embedding_size or embedding or hidden,
            **{field.name: getattr(self, field.name) for field in common},
        )

    def generator(self, vocab_size: int) -> BertConfig:
        """Returns the shape of the generator for a vocabulary."""
        full = self.discriminator(vocab_size)
        if self.generator_sharing == "all":
            return full
        width = round(full.hidden_size * self.generator_hidden_size)
        layers = round(full.num_hidden_layers * self.generator_layers)
        has_own_tables = self.generator_sharing == "none"
        return dataclasses.replace(
            full,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=self.generator_num_attention_heads
            or default_num_attention_heads(width),
            intermediate_size=4 * width,
            embedding_size=width if has_own_tables else full.embedding_size,
        )


def default_num_attention_heads(width: int) -> int:
    """Returns the original's number of attention heads for a width."""
    return max(1, width // 64)
