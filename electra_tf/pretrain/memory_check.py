"""Warns before the first update if it will probably not fit into memory."""

import dataclasses

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import plan_sizes
from electra_tf.util import console, free_memory


def warn(
    config: PretrainingConfig,
    vocab_size: int,
    *,
    num_workers: int = 1,
    group_size: int = 1,
) -> None:
    """Warns if an update is predicted to take more memory than there is.

    It is for CPUs. With `--recompute` there is no warning, as it takes less
    memory than predicted.

    Args:
      config: configuration of the training.
      vocab_size: size of its vocabulary.
      num_workers: machines that share the rows of an update.
      group_size: consecutive rows that stay together.
    """
    corpus = dataclasses.replace(config.corpus, vocab_size=vocab_size)
    config = dataclasses.replace(config, corpus=corpus)
    pieces = config.runtime.gradient_accumulation_steps * num_workers
    needed = plan_sizes.memory_bytes(config, pieces)
    free = free_memory.find()
    if config.runtime.recompute or needed <= free.num_bytes:
        return
    other_flags = ["--recompute"]
    fewest = plan_sizes.num_micro_batches(
        config,
        free.num_bytes,
        num_workers=num_workers,
        group_size=group_size,
    )
    if plan_sizes.memory_bytes(config, fewest * num_workers) <= free.num_bytes:
        other_flags.append(f"--gradient_accumulation_steps={fewest}")
    largest = max(config.phases, key=lambda phase: phase.tokens_per_step)
    console.warn(
        f"An update of {largest.batch_size:,} rows of "
        f"{largest.max_seq_length:,} tokens takes about {_gib(needed)}; "
        f"{free.limit} leaves {_gib(free.num_bytes)}. If memory runs out, "
        "this run is killed without a message. Lower --train_batch_size or "
        f"--max_seq_length, or set {' or '.join(other_flags)}, which changes "
        "no result."
    )


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:,.1f} GiB"
