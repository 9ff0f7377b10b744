"""The sizes that a plan chooses among, and where their settings come from."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.configure_pretraining import PretrainingConfig

Flags = Mapping[str, Any]
"""Name of a flag of run_pretraining -> its value."""

MIN_TOKENS = 73
"""Tokens for each parameter of the discriminator that a size must read.

It is the shortest training that the paper has a score of: Small, 14 million
parameters, after 62,500 updates of 128 rows of 128 tokens (6.25 % of all)
scores 74.1 on GLUE, and 79.9 in the end (table 1). At the other end of the
ladder configs/demo_hour.cfg, 0.94 million parameters, learns from 87 tokens a
parameter of mixed text. Between the two nothing was measured."""

MIN_DEMO_TOKENS = 8
"""The same for the demo, which learns from 8.8 of text of one kind
(docs/demo.md)."""


class Rung(NamedTuple):
    """A size of the ladder, and the settings that it learns with.

    Attributes:
      name: of the size.
      source: of the settings.
      flags: the settings, but for the schedule, as flags of run_pretraining.
      min_tokens: for each parameter of the discriminator, that it must read.
    """

    name: str
    source: str
    flags: Flags
    min_tokens: float = MIN_TOKENS


_WIDTH_128 = {
    "vocab_size": 4096,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "embedding_size": 128,
    "initializer_range": 0.09,
    "learning_rate": 2e-3,
    "attention_initializer": "neighbours",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "adam_beta2": 0.98,
}
_DEMO = {
    **_WIDTH_128,
    "num_hidden_layers": 2,
    "generator_hidden_size": 0.25,
    "generator_num_attention_heads": 2,
    "max_position_embeddings": 64,
    "max_seq_length": 64,
    "train_batch_size": 32,
}
_HOUR = {
    **_WIDTH_128,
    "max_position_embeddings": 128,
    "max_seq_length": 128,
    "seq_length_phases": "64:0.8:64,128:0.2:32",
    "generator_sharing": "all",
    "train_batch_size": 64,
}
_WIDER = {
    **_HOUR,
    "vocab_size": 8192,
    "hidden_size": 256,
    "initializer_range": 0.06,
    "learning_rate": 1e-3,
}
_SMALL = {
    "model_size": "small",
    "max_seq_length": 128,
    "learning_rate": 5e-4,
    "train_batch_size": 128,
}
_BASE = {
    "model_size": "base",
    "generator_hidden_size": 0.33333,
    "max_seq_length": 512,
    "learning_rate": 2e-4,
    "train_batch_size": 256,
}
_SOURCE_OF_DEMO = (
    "configs/demo.cfg; learns on text of one kind, where mixed text takes "
    "2x128 or more (docs/demo.md)"
)
_SOURCE_OF_WIDER = (
    "as configs/demo_hour.cfg, with rate and initial weights scaled from width "
    "128 to 256 (1 / H, 1 / sqrt(H)); not trained to a result yet"
)

LADDER = (
    Rung("demo", _SOURCE_OF_DEMO, _DEMO, MIN_DEMO_TOKENS),
    Rung(
        "2x128",
        "configs/demo_hour.cfg; learns on mixed text (docs/demo.md)",
        {**_HOUR, "num_hidden_layers": 2},
    ),
    Rung(
        "4x128",
        "configs/demo_hour.cfg with four layers; not trained to a result yet",
        {**_HOUR, "num_hidden_layers": 4},
    ),
    Rung("4x256", _SOURCE_OF_WIDER, {**_WIDER, "num_hidden_layers": 4}),
    Rung("6x256", _SOURCE_OF_WIDER, {**_WIDER, "num_hidden_layers": 6}),
    Rung("small", "the paper's table 6, column Small", _SMALL),
    Rung(
        "medium",
        "between Small and Base of the paper's table 6; in no paper",
        {**_SMALL, "hidden_size": 512, "learning_rate": 3e-4},
    ),
    Rung("base", "the paper's table 6, column Base", _BASE),
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
