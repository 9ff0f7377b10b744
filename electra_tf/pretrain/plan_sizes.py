"""The sizes that a plan chooses among, what each needs, and what it costs.

A size is a rung of `LADDER`: settings with their source. No TensorFlow is
needed.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import flops

Flags = Mapping[str, Any]
"""Name of a flag of run_pretraining -> its value."""

MIN_TOKENS = 73
"""Tokens for each parameter of the discriminator that a size must read.

It is the shortest training that the paper has a score of: Small, 14 million
parameters, after 62,500 updates of 128 rows of 128 tokens (6.25 % of all)
scores 74.1 on GLUE, and 79.9 in the end (table 1). At the other end of the
ladder it agrees with docs/demo.md: configs/demo_hour.cfg, 0.94 million
parameters, learns from 87 tokens a parameter of mixed text. Between the two
nothing was measured."""

MIN_DEMO_TOKENS = 8
"""The same for the demo's own size: it learns from 8.8 tokens a parameter of
text of one kind (docs/demo.md)."""

# Weight, two slots, gradient, and a copy of it while it is clipped.
_BYTES_PER_WEIGHT = 20
# Of a token in a layer of width H, and of one masked slot: found with Small,
# of which a row of 128 tokens takes 39 MiB (docs/benchmarks/step.md#memory).
_VALUES_PER_HIDDEN = 14
_VALUES_PER_LOGIT = 4
_BYTES_PER_VALUE = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rung:
    """A size of the ladder, and the settings that it learns with."""

    name: str
    """Of the size."""

    source: str
    """Where the settings come from."""

    flags: Flags
    """The settings, but for the schedule, as flags of run_pretraining."""

    min_tokens: float = MIN_TOKENS
    """Tokens for each parameter that it must read."""

    @property
    def starts_with_generator(self) -> bool:
        """Whether the discriminator's loss comes in later."""
        return self.flags.get("generator_sharing") == "all"


_NEIGHBOURS = {
    "attention_initializer": "neighbours",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "adam_beta2": 0.98,
}
_WIDTH_128 = {
    "vocab_size": 4096,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "embedding_size": 128,
    "initializer_range": 0.09,
    "learning_rate": 2e-3,
}
_ONE_ENCODER = {
    "max_position_embeddings": 128,
    "max_seq_length": 128,
    "seq_length_phases": "64:0.8:64,128:0.2:32",
    "generator_sharing": "all",
    "train_batch_size": 64,
}
_WIDTH_256 = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "embedding_size": 128,
    "initializer_range": 0.06,
    "learning_rate": 1e-3,
}
_DEMO_HOUR = {**_WIDTH_128, **_NEIGHBOURS, **_ONE_ENCODER}
_WIDER = {**_WIDTH_256, **_NEIGHBOURS, **_ONE_ENCODER}
_NOT_TRIED = (
    "as configs/demo_hour.cfg, with rate and initial weights scaled from width "
    "128 to 256 (1 / H, 1 / sqrt(H)); not trained to a result yet"
)

LADDER = (
    Rung(
        name="demo",
        source="configs/demo.cfg; learns on text of one kind, where mixed text "
        "takes 2x128 or more (docs/demo.md)",
        flags={
            **_WIDTH_128,
            **_NEIGHBOURS,
            "num_hidden_layers": 2,
            "generator_hidden_size": 0.25,
            "generator_num_attention_heads": 2,
            "max_position_embeddings": 64,
            "max_seq_length": 64,
            "train_batch_size": 32,
        },
        min_tokens=MIN_DEMO_TOKENS,
    ),
    Rung(
        name="2x128",
        source="configs/demo_hour.cfg; learns on mixed text (docs/demo.md)",
        flags={**_DEMO_HOUR, "num_hidden_layers": 2},
    ),
    Rung(
        name="4x128",
        source="configs/demo_hour.cfg with four layers; not trained to a "
        "result yet",
        flags={**_DEMO_HOUR, "num_hidden_layers": 4},
    ),
    Rung(
        name="4x256",
        source=_NOT_TRIED,
        flags={**_WIDER, "num_hidden_layers": 4},
    ),
    Rung(
        name="6x256",
        source=_NOT_TRIED,
        flags={**_WIDER, "num_hidden_layers": 6},
    ),
    Rung(
        name="small",
        source="the paper's table 6, column Small",
        flags={
            "model_size": "small",
            "max_seq_length": 128,
            "learning_rate": 5e-4,
            "train_batch_size": 128,
        },
    ),
    Rung(
        name="medium",
        source="between Small and Base of the paper's table 6; in no paper",
        flags={
            "model_size": "small",
            "hidden_size": 512,
            "max_seq_length": 128,
            "learning_rate": 3e-4,
            "train_batch_size": 128,
        },
    ),
    Rung(
        name="base",
        source="the paper's table 6, column Base",
        flags={
            "model_size": "base",
            "generator_hidden_size": 0.33333,
            "max_seq_length": 512,
            "learning_rate": 2e-4,
            "train_batch_size": 256,
        },
    ),
)
"""The sizes, smallest first."""

SIZES = tuple(rung.name for rung in LADDER)


def configure(rung: Rung, given: Flags, num_rows: int = 0) -> PretrainingConfig:
    """Returns a configuration of a size, with the default schedule.

    Args:
      rung: the size.
      given: flags that take precedence over those of the size.
      num_rows: 0 for the phases of a training; or rows of an update, for the
        first phase alone.
    """
    where = {"data_dir": "unused", "model_name": "unused"}
    config = PretrainingConfig.from_flags({**rung.flags, **where, **given})
    if not num_rows:
        return config
    corpus = dataclasses.replace(
        config.corpus,
        max_seq_length=config.phases[0].max_seq_length,
        seq_length_phases="",
    )
    training = dataclasses.replace(config.training, train_batch_size=num_rows)
    return dataclasses.replace(config, corpus=corpus, training=training)


def mean_flops(config: PretrainingConfig, *, is_paper: bool = False) -> float:
    """Counts an update, the mean over the phases of a training.

    Args:
      config: of the training.
      is_paper: whether reading a word costs what it does in the paper's
        figures; in time it costs nothing.
    """
    steps = config.training.num_train_steps
    total = flops.training_flops(
        config,
        config.corpus.target_vocab_size,
        steps,
        sparse_embed_lookup=not is_paper,
    )
    return total / steps


def mean_tokens(config: PretrainingConfig) -> float:
    """Returns the tokens of an update, the mean over the phases."""
    total = sum(x.num_steps * x.tokens_per_step for x in config.phases)
    return total / config.training.num_train_steps


def parameters(shape: BertConfig) -> int:
    """Counts the parameters of an encoder, embeddings included."""
    hidden, wide = shape.hidden_size, shape.intermediate_size
    layer = (
        4 * (hidden * hidden + hidden)  # query, key, value, output
        + 2 * hidden * wide
        + wide
        + hidden
        + 4 * hidden  # two normalizations
    )
    project = 0
    if shape.embedding_size != hidden:
        project = shape.embedding_size * hidden + hidden
    return _embeddings(shape) + project + shape.num_hidden_layers * layer


def _embeddings(shape: BertConfig) -> int:
    """Counts the parameters of the tables and their normalization."""
    rows = shape.vocab_size + shape.max_position_embeddings
    return (rows + shape.type_vocab_size + 2) * shape.embedding_size


def memory_bytes(config: PretrainingConfig, num_pieces: int = 1) -> float:
    """Predicts the memory of weights and activations of an update.

    Args:
      config: of the training.
      num_pieces: micro-batches in an update.
    """
    size, model = config.corpus.target_vocab_size, config.model
    networks = [model.discriminator(size), model.generator(size)]
    weights = parameters(networks[0])
    if model.generator_sharing != "all":
        weights += parameters(networks[1]) - _embeddings(networks[1])
    activations = max(
        phase.batch_size
        / num_pieces
        * _values(config, networks, phase.max_seq_length)
        for phase in config.phases
    )
    return _BYTES_PER_WEIGHT * weights + _BYTES_PER_VALUE * activations


def _values(
    config: PretrainingConfig, networks: list[BertConfig], length: int
) -> float:
    """Counts the values of a row that the backward pass needs."""
    states = sum(
        shape.num_hidden_layers
        * (
            _VALUES_PER_HIDDEN * shape.hidden_size
            + shape.num_attention_heads * length
        )
        for shape in networks
    )
    slots = config.masking.max_predictions_per_seq(length)
    return (
        length * states
        + _VALUES_PER_LOGIT * slots * config.corpus.target_vocab_size
    )
