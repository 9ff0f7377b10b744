"""The sizes that a plan chooses among: settings, source, FLOPs and memory."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.checkpoint.architecture import Architecture
from electra_tf.config.model import BertConfig
from electra_tf.config.phases import parse, tokens_after
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import flops

Flags = Mapping[str, Any]
"""Name of a flag of run_pretraining -> its value."""

MIN_TOKENS = 73
"""Minimum tokens to read for each parameter of the discriminator.

This is the shortest training for which the paper gives a score: Small, 14
million parameters, after 62,500 updates of 128 rows of 128 tokens (6.25 % of
all) scores 74.1 on GLUE, and 79.9 in the end (table 1). Between it and
configs/mini.cfg only 4x256 was trained here, with 46."""

MIN_DEMO_TOKENS = 8
"""The minimum for configs/demo.cfg, which learns with 8.8 tokens per parameter
of text of one kind."""

MIN_MINI_TOKENS = 28
"""The minimum for configs/mini.cfg, which learns with 28.1 tokens per parameter
of mixed text (docs/replication.md)."""

# Weight, two slots, gradient, and a copy of the gradient while it is clipped.
_BYTES_PER_WEIGHT = 20
# Values kept for a token in a layer of width H, in units of H, and for a logit
# of a masked slot: fitted to Small, of which a row of 128 tokens takes 39 MiB
# (docs/benchmarks/step.md#memory).
_VALUES_PER_HIDDEN = 14
_VALUES_PER_LOGIT = 4
_BYTES_PER_VALUE = 4
_NUM_POSITIONS = 512  # of sizes that name none


class ModelSize(NamedTuple):
    """A size to choose, and the settings that it learns with."""

    name: str
    source: str
    flags: Flags
    min_tokens: float = MIN_TOKENS


_SHALLOW = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "embedding_size": 128,
    "generator_hidden_size": 0.25,
    "generator_num_attention_heads": 2,
    "attention_initializer": "neighbours",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "temperature": 3.0,
    "temperature_end": 1.0,
    "adam_beta2": 0.98,
}
_DEMO = {
    **_SHALLOW,
    "vocab_size": 4096,
    "hidden_size": 128,
    "initializer_range": 0.09,
    "learning_rate": 2e-3,
    "max_position_embeddings": 64,
    "max_seq_length": 64,
    "train_batch_size": 32,
}
_MINI = {
    **_SHALLOW,
    "vocab_size": 8192,
    "hidden_size": 256,
    "learning_rate": 1e-3,
    "max_position_embeddings": 128,
    "max_seq_length": 128,
    "seq_length_phases": "64:0.8:64,128:0.2:32",
    "shift_positions": True,
    "train_batch_size": 64,
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
    "mini or more (docs/demo.md)"
)
_SOURCE_OF_4X256 = (
    "configs/mini.cfg with four layers; level with mini at 6.25e14 FLOPs, not "
    "trained for longer with its initial weights (docs/replication.md)"
)
_SOURCE_OF_6X256 = (
    "configs/mini.cfg with six layers; not trained to a result yet"
)

MODEL_SIZES = (
    ModelSize("demo", _SOURCE_OF_DEMO, _DEMO, MIN_DEMO_TOKENS),
    ModelSize(
        "mini",
        "configs/mini.cfg; learns on mixed text (docs/replication.md)",
        _MINI,
        MIN_MINI_TOKENS,
    ),
    ModelSize("4x256", _SOURCE_OF_4X256, {**_MINI, "num_hidden_layers": 4}),
    ModelSize("6x256", _SOURCE_OF_6X256, {**_MINI, "num_hidden_layers": 6}),
    ModelSize("small", "the paper's table 6, column Small", _SMALL),
    ModelSize(
        "medium",
        "between Small and Base of the paper's table 6; in no paper",
        {**_SMALL, "hidden_size": 512, "learning_rate": 3e-4},
    ),
    ModelSize("base", "the paper's table 6, column Base", _BASE),
)
"""The sizes, smallest first."""

SIZE_NAMES = tuple(size.name for size in MODEL_SIZES)


def settings(size: ModelSize, given: Flags) -> dict[str, Any]:
    """Returns the flags of a size, with those that take precedence."""
    flags = {**size.flags, **given}
    if "max_seq_length" in given and "seq_length_phases" not in given:
        flags.pop("seq_length_phases", None)
    phases = parse(flags.get("seq_length_phases", ""))
    lengths = {phase.max_seq_length for phase in phases}
    if lengths and "max_seq_length" not in given:
        flags["max_seq_length"] = max(lengths)
    longest = flags["max_seq_length"]
    if longest > flags.get("max_position_embeddings", _NUM_POSITIONS):
        flags["max_position_embeddings"] = longest
    if len(lengths) < 2 and "shift_positions" not in given:
        flags.pop("shift_positions", None)
    if buckets := flags.get("length_buckets"):
        flags["length_buckets"] = tuple(x for x in buckets if x <= longest)
    return flags


def configure(
    size: ModelSize, given: Flags, num_rows: int = 0
) -> PretrainingConfig:
    """Returns a configuration of a size, with the default schedule."""
    where = {"data_dir": "unused", "model_name": "unused"}
    config = PretrainingConfig.from_flags({**settings(size, given), **where})
    if not num_rows:
        return config
    length = config.phases[0].max_seq_length
    corpus = next(
        x for x in config.corpus.data_sets if x.max_seq_length == length
    )
    training = dataclasses.replace(
        config.training,
        train_batch_size=num_rows,
        shift_positions=False,  # which rows of one length cannot be
    )
    return dataclasses.replace(config, corpus=corpus, training=training)


def mean_flops(
    config: PretrainingConfig, *, sparse_embed_lookup: bool = True
) -> float:
    """Counts the FLOPs of an update, the mean over the training."""
    steps = config.training.num_train_steps
    total = flops.training_flops(
        config,
        config.corpus.target_vocab_size,
        steps,
        sparse_embed_lookup=sparse_embed_lookup,
    )
    return total / steps


def mean_tokens(config: PretrainingConfig) -> float:
    """Returns the tokens of an update, the mean over the training."""
    return tokens_after(config.phases, 0) / config.training.num_train_steps


def parameters(shape: BertConfig) -> int:
    """Counts the parameters of an encoder, embeddings included."""
    return Architecture(encoder=shape).num_parameters


def encoder_parameters(config: PretrainingConfig) -> int:
    """Counts the parameters of all encoders of a training, without heads."""
    vocab_size, model = config.corpus.target_vocab_size, config.model
    sizes = flops.sizes_of(config, vocab_size)
    passes = flops.passes(config.objective.objective, sizes)
    encoders = Architecture(encoder=model.discriminator(vocab_size))
    generator = passes.get("generator")
    if generator is not None and model.generator_sharing != "all":
        encoders = dataclasses.replace(
            encoders,
            generator=generator.network,
            sharing=model.generator_sharing,
            is_two_tower=generator.num_towers > 1,
        )
    return encoders.num_parameters


def memory_bytes(config: PretrainingConfig, num_pieces: int = 1) -> float:
    """Predicts the memory of weights and activations of an update."""
    vocab_size = config.corpus.target_vocab_size

    def num_values(length: int) -> int:  # of a row
        sizes = flops.sizes_of(config, vocab_size, length)
        passes = flops.passes(config.objective.objective, sizes)
        states = sum(
            one.network.num_hidden_layers
            * one.num_towers
            * (
                _VALUES_PER_HIDDEN * one.network.hidden_size
                + one.network.num_attention_heads * length
            )
            for one in passes.values()
        )
        slots = sizes.max_predictions_per_seq
        words = sum(_num_positions(one, slots) for one in passes.values())
        return length * states + _VALUES_PER_LOGIT * vocab_size * words

    activations = max(
        phase.batch_size / num_pieces * num_values(phase.max_seq_length)
        for phase in config.phases
    )
    weights = _BYTES_PER_WEIGHT * encoder_parameters(config)
    return weights + _BYTES_PER_VALUE * activations


def num_micro_batches(
    config: PretrainingConfig,
    free_bytes: float,
    *,
    num_workers: int = 1,
    group_size: int = 1,
) -> int:
    """Returns the fewest micro-batches that fit into memory; if none, the
    most."""
    rows = math.gcd(*(phase.batch_size for phase in config.phases))
    shares = num_workers * group_size
    numbers = [n for n in range(1, rows + 1) if rows % (n * shares) == 0] or [1]
    fitting = (
        n
        for n in numbers
        if memory_bytes(config, n * num_workers) <= free_bytes
    )
    return next(fitting, numbers[-1])


def _num_positions(one: flops.Pass, num_slots: int) -> int:
    """Returns the positions of a row whose logits are in memory together."""
    if one.in_blocks:
        return 0
    return num_slots if one.num_towers > 1 else one.num_predictions
