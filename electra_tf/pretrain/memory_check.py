"""A warning before the first update if it will probably not fit into memory."""

import dataclasses

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import plan_sizes, planning
from electra_tf.util import console, free_memory


def warn(
    config: PretrainingConfig, vocab_size: int, *, num_workers: int = 1
) -> None:
    """Warns if an update is predicted to take more memory than there is.

    It is for CPUs. `--recompute` takes less than what is predicted, and is let
    pass.

    Args:
      config: of the training.
      vocab_size: of its vocabulary.
      num_workers: machines that share the rows of an update.
    """
    corpus = dataclasses.replace(config.corpus, vocab_size=vocab_size)
    config = dataclasses.replace(config, corpus=corpus)
    pieces = config.runtime.gradient_accumulation_steps * num_workers
    needed = plan_sizes.memory_bytes(config, pieces)
    free = free_memory.find()
    if config.runtime.recompute or needed <= free.num_bytes:
        return
    others = ["--recompute"]
    number = planning.num_micro_batches(config, free.num_bytes)
    if plan_sizes.memory_bytes(config, number) <= free.num_bytes:
        wanted = -(-number // num_workers)
        others.append(f"--gradient_accumulation_steps={wanted}")
    largest = max(config.phases, key=lambda phase: phase.tokens_per_step)
    console.warn(
        f"An update of {largest.batch_size:,} rows of "
        f"{largest.max_seq_length:,} tokens takes about {_gib(needed)}; "
        f"{free.limit} leaves {_gib(free.num_bytes)}. If that is not enough, "
        "this run ends without a message. Lower --train_batch_size or "
        f"--max_seq_length, or give {' or '.join(others)}, which changes no "
        "result."
    )


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:,.1f} GiB"
