"""Measures pre-training as `run_pretraining` does it: prints one JSON line.

    python tools/benchmarks/pretrain_step.py --flagfile=configs/small.cfg \
        --train_batch_size=32

The command's own loop runs on the records in --data_dir, which are built if
there are none, with its logs, in a model directory that is removed afterwards.
Times, page faults and CPU seconds are those of whole updates after the first
three looks of the loop, over seven pieces of four seconds or more. GFLOP/s
count the matrix products of the update, backward as twice forward, with the
vocabulary at the masked positions only.
"""

import contextlib
import dataclasses
import json
import resource
import shutil
import statistics
import sys
import time
from typing import NamedTuple

import machine

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import config_flags, console, memory

_MODEL_NAME = "pretrain_step_benchmark"
_NUM_WARM_LOOKS = 3
_NUM_PIECES = 7
_SECONDS_A_PIECE = 4.0
_FIGURES = {
    "seconds": "seconds",
    "user_seconds": "ru_utime",
    "kernel_seconds": "ru_stime",
    "page_faults": "ru_minflt",
}


class Look(NamedTuple):
    """What had been used when the loop looked up.

    Attributes:
      step: updates done.
      seconds: on the clock.
      usage: of the process, by getrusage(2).
    """

    step: int
    seconds: float
    usage: resource.struct_rusage

    def figure(self, name: str) -> float:
        """Returns one of the figures, summed since the process began."""
        return getattr(self if name == "seconds" else self.usage, name)


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
    """Trains for some pieces and prints the figures."""
    began, at_work = time.monotonic(), machine.describe()
    memory.keep_if(config.runtime.keep_memory)
    config = _of_benchmark(config)
    with contextlib.redirect_stdout(sys.stderr):
        looks, num_words = _train(config)
    report = {
        "benchmark": "pretrain_step",
        **at_work,
        **_versions(),
        "objective": config.objective.objective,
        "model_size": config.model.model_size,
        "batch_size": config.training.train_batch_size,
        "max_seq_length": config.corpus.max_seq_length,
        "precision": config.training.precision,
        "jit_compile": config.runtime.jit_compile,
        "keep_memory": config.runtime.keep_memory,
        "recompute": config.runtime.recompute,
        "seconds_to_first_update": looks[0].seconds - began,
        **_figures(looks, config, num_words),
    }
    print(json.dumps(report))


def _of_benchmark(config: PretrainingConfig) -> PretrainingConfig:
    """Returns a configuration that trains alone, in a directory of its own."""
    run = dataclasses.replace(
        config.run,
        model_name=_MODEL_NAME,
        do_train=True,
        do_eval=False,
        do_export=False,
    )
    return dataclasses.replace(config, run=run)


def _train(config: PretrainingConfig) -> tuple[list[Look], int]:
    """Trains; returns the looks, and the size of the vocabulary."""
    with console.quiet_imports():
        import keras

        from electra_tf.pretrain import pretraining_run

    class Meter(keras.callbacks.Callback):
        """Looks up after each piece, and ends the loop after the last."""

        def __init__(self) -> None:
            super().__init__()
            self.looks = []

        def on_train_batch_end(self, step: int, logs: object = None) -> None:
            now = time.monotonic()
            is_warm = len(self.looks) >= _NUM_WARM_LOOKS
            if is_warm and now - self.looks[-1].seconds < _SECONDS_A_PIECE:
                return
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self.looks.append(Look(step, now, usage))
            if len(self.looks) == _NUM_WARM_LOOKS + _NUM_PIECES:
                self.model.stop_training = True

    meter = Meter()
    shutil.rmtree(config.run.model_dir, ignore_errors=True)
    try:
        pretraining_run.run(config, callbacks=[meter])
    finally:
        shutil.rmtree(config.run.model_dir, ignore_errors=True)
    return meter.looks, meter.model.vocabulary.size


def _versions() -> dict[str, str]:
    import keras
    import tensorflow as tf

    return {"tensorflow": tf.__version__, "keras": keras.__version__}


def _figures(
    looks: list[Look], config: PretrainingConfig, num_words: int
) -> dict[str, object]:
    """Returns what an update costs: minimum, median and maximum of pieces."""
    warm = looks[_NUM_WARM_LOOKS - 1 :]
    pairs = list(zip(warm, warm[1:], strict=False))
    spread = {}
    for name, source in _FIGURES.items():
        values = [
            (end.figure(source) - start.figure(source))
            / (end.step - start.step)
            for start, end in pairs
        ]
        spread[f"{name}_per_update"] = {
            "min": min(values),
            "median": statistics.median(values),
            "max": max(values),
        }
    user, kernel = (
        sum(b.figure(name) - a.figure(name) for a, b in pairs)
        for name in ("ru_utime", "ru_stime")
    )
    per_second = (
        config.training.train_batch_size
        / spread["seconds_per_update"]["median"]
    )
    gflop = step_flops(config, num_words) / 1e9
    return {
        **spread,
        "kernel_share_of_cpu": kernel / (user + kernel),
        "sequences_per_second": per_second,
        "gflop_per_sequence": gflop,
        "gflop_per_second": gflop * per_second,
        "peak_memory_gib": looks[-1].usage.ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    config_flags.run(main, PretrainingConfig)
