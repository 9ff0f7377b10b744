"""Measures masking with each strategy: prints one JSON line.

    python tools/benchmarks/masking.py
    python tools/benchmarks/masking.py --jit_compile --max_seq_length=512

A batch of random tokens, a quarter of which continue a word, is masked with
each strategy in turn, again and again; the times are of one masking. An update
masks twice: for the sizes of its losses, and for the generator.
"""

import dataclasses
import json
import time
from collections.abc import Callable

import machine
import numpy as np
import tensorflow as tf
from reports import spread

from electra_tf.config.masking import MaskingConfig
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.masking_strategies import STRATEGIES
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util import config_flags, seeds

_VOCAB_SIZE = 30522
_ROUNDS = 30

Masking = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What to measure."""

    batch_size: int = 128
    """Rows."""

    max_seq_length: int = 128
    """Tokens in a row."""

    jit_compile: bool = False
    """Compile with XLA."""


def main(config: BenchmarkConfig) -> None:
    """Times all strategies, alternating, and prints the figures."""
    inputs = _batch(config.batch_size, config.max_seq_length)
    maskings = {
        name: _make(inputs, name, jit_compile=config.jit_compile)
        for name in STRATEGIES
    }
    times = {name: [] for name in maskings}
    for step in range(_ROUNDS + 1):
        for name, masking in maskings.items():
            start = time.perf_counter()
            masking(tf.constant(step)).numpy()
            if step:  # the first one traces
                times[name].append(1000 * (time.perf_counter() - start))
    report = {
        "benchmark": "masking",
        **machine.versions("tensorflow"),
        **machine.describe(),
        "devices": [d.name for d in tf.config.list_physical_devices()],
        **dataclasses.asdict(config),
        "milliseconds": {
            name: spread(values) for name, values in times.items()
        },
    }
    print(json.dumps(report))


def _batch(num_rows: int, length: int) -> Inputs:
    rng = np.random.default_rng(0)
    ids = rng.integers(5, _VOCAB_SIZE, (num_rows, length)).astype(np.int32)
    ids[:, 0] = SPECIAL_TOKENS.index("[CLS]")
    ids[:, [length // 2, -1]] = SPECIAL_TOKENS.index("[SEP]")
    arrays = (ids, np.ones_like(ids), np.zeros_like(ids))
    return Inputs(*map(tf.constant, arrays))


def _make(inputs: Inputs, strategy: str, *, jit_compile: bool) -> Masking:
    num_words = _VOCAB_SIZE - len(SPECIAL_TOKENS)
    words = (f"w{i}" if i % 4 else f"##w{i}" for i in range(num_words))
    counts = tuple(10**7 // (1 + i) for i in range(_VOCAB_SIZE))
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *words), counts)
    config = MaskingConfig(masking_strategy=strategy)

    @tf.function(jit_compile=jit_compile)
    def masking(step: tf.Tensor) -> tf.Tensor:
        rows = tf.range(inputs.input_ids.shape[0])
        masked = pretrain_helpers.mask(
            inputs,
            config,
            vocabulary=vocabulary,
            keys=seeds.row_keys(0, step, rows),
        )
        return tf.reduce_sum(masked.inputs.input_ids)

    return masking


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
