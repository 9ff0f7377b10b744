"""Measures one pre-training step: prints one JSON line.

    python tools/benchmarks/pretrain_step.py --flagfile=configs/small.cfg \
        --train_batch_size=32

The batch is random tokens, the time that of whole updates, dropout and
optimizer included. GFLOP/s count the matrix products of the step, backward as
twice forward, with the vocabulary at the masked positions only.
"""

import json
import os
import platform
import resource
import statistics

import keras
import tensorflow as tf
from steps import Steps, vocab_size

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.bert_config import BertConfig
from electra_tf.util import config_flags

_NUM_BLOCKS = 5
_SECONDS_A_BLOCK = 4.0


def encoder_flops(bert: BertConfig, length: int) -> float:
    """Returns the floating-point operations of a forward pass, for a token."""
    hidden, wide = bert.hidden_size, bert.intermediate_size
    block = 8 * hidden**2 + 4 * hidden * wide + 4 * hidden * length
    projection = 2 * bert.embedding_size * hidden
    if bert.embedding_size == hidden:
        projection = 0
    return projection + bert.num_hidden_layers * block


def step_flops(config: PretrainingConfig, num_words: int) -> float:
    """Returns the floating-point operations of a training step, a sequence."""
    length = config.corpus.max_seq_length
    slots = config.masking.max_predictions_per_seq(length)
    discriminator = config.model.discriminator(num_words)
    generator = config.model.generator(num_words)
    embedding = generator.embedding_size
    head = 2 * generator.hidden_size * embedding + 2 * embedding * num_words
    forward = (
        length * encoder_flops(discriminator, length)
        + length * 2 * discriminator.hidden_size**2
        + length * encoder_flops(generator, length)
        + slots * head
    )
    return 3 * forward


def main(config: PretrainingConfig) -> None:
    """Times blocks of updates and prints the figures."""
    steps = Steps(config)
    first = steps.seconds(1)
    steps.seconds(1)
    num_steps = max(1, round(_SECONDS_A_BLOCK / steps.seconds(1)))
    seconds = [steps.seconds(num_steps) for _ in range(_NUM_BLOCKS)]
    print(json.dumps(_report(config, first, seconds)))


def _report(
    config: PretrainingConfig, first: float, seconds: list[float]
) -> dict:
    batch_size = config.training.train_batch_size
    median = statistics.median(seconds)
    flops = step_flops(config, vocab_size(config)) * batch_size
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "benchmark": "pretrain_step",
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "objective": config.objective.objective,
        "model_size": config.model.model_size,
        "batch_size": batch_size,
        "max_seq_length": config.corpus.max_seq_length,
        "precision": config.training.precision,
        "jit_compile": config.runtime.jit_compile,
        "seconds_per_step": {
            "min": min(seconds),
            "median": median,
            "max": max(seconds),
        },
        "first_step_seconds": first,
        "sequences_per_second": batch_size / median,
        "gflop_per_sequence": flops / batch_size / 1e9,
        "gflop_per_second": flops / median / 1e9,
        "peak_memory_gib": rss / 2**20,
    }


if __name__ == "__main__":
    config_flags.run(main, PretrainingConfig)
