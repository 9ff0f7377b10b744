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
import time

import keras
import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.bert_config import BertConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util import config_flags, distribution, training_utils

_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_VOCAB_SIZE = 30522
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


def step_flops(config: PretrainingConfig, vocab_size: int) -> float:
    """Returns the floating-point operations of a training step, a sequence."""
    length = config.corpus.max_seq_length
    slots = config.masking.max_predictions_per_seq(length)
    discriminator = config.model.discriminator(vocab_size)
    generator = config.model.generator(vocab_size)
    embedding = generator.embedding_size
    head = 2 * generator.hidden_size * embedding + 2 * embedding * vocab_size
    forward = (
        length * encoder_flops(discriminator, length)
        + length * 2 * discriminator.hidden_size**2
        + length * encoder_flops(generator, length)
        + slots * head
    )
    return 3 * forward


def main(config: PretrainingConfig) -> None:
    """Times blocks of updates and prints the figures."""
    vocab_size = config.corpus.vocab_size or _VOCAB_SIZE
    words = tuple(f"w{i}" for i in range(vocab_size - len(_SPECIALS)))
    strategy = distribution.make_strategy(config.runtime.strategy)
    model = pretraining_run.make_model(
        config, Vocabulary(_SPECIALS + words), strategy
    )
    batches = _batches(config, vocab_size, strategy)
    block = training_utils._make_block(model, strategy)
    start = time.perf_counter()
    block(batches, 1)
    first = time.perf_counter() - start
    block(batches, 1)
    start = time.perf_counter()
    block(batches, 1)
    num_steps = max(1, round(_SECONDS_A_BLOCK / (time.perf_counter() - start)))
    seconds = [_time(block, batches, num_steps) for _ in range(_NUM_BLOCKS)]
    print(json.dumps(_report(config, vocab_size, first, seconds)))


def _time(block: object, batches: object, num_steps: int) -> float:
    start = time.perf_counter()
    block(batches, num_steps)
    return (time.perf_counter() - start) / num_steps


def _batches(
    config: PretrainingConfig, vocab_size: int, strategy: tf.distribute.Strategy
) -> object:
    rng = np.random.default_rng(0)
    shape = (config.training.train_batch_size, config.corpus.max_seq_length)
    ids = rng.integers(len(_SPECIALS), vocab_size, shape).astype(np.int32)

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        size = context.get_per_replica_batch_size(shape[0])
        inputs = Inputs(ids, np.ones_like(ids), np.zeros_like(ids))
        dataset = tf.data.Dataset.from_tensor_slices(inputs).repeat()
        return dataset.batch(size, drop_remainder=True)

    return iter(strategy.distribute_datasets_from_function(make))


def _report(
    config: PretrainingConfig,
    vocab_size: int,
    first: float,
    seconds: list[float],
) -> dict:
    batch_size = config.training.train_batch_size
    median = statistics.median(seconds)
    flops = step_flops(config, vocab_size) * batch_size
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
