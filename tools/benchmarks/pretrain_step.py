r"""Measures the training loop of `run_pretraining`; prints one JSON line.

    python tools/benchmarks/pretrain_step.py --flagfile=configs/small.cfg \
        --train_batch_size=32

The command's own loop runs on the records in --data_dir, which are built first
where they are missing, in a model directory that is removed afterwards. Wall
and CPU seconds and page faults are those of whole updates on an idle machine,
over seven pieces of at least four seconds, after a warm-up.
"""

import contextlib
import dataclasses
import itertools
import json
import resource
import shutil
import sys
import time
from typing import NamedTuple

import measuring

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import console
from electra_tf.util.flags import run_command

WARMUP_PIECES, PIECES, SECONDS_PER_PIECE = 3, 7, 4.0


class Snapshot(NamedTuple):
    """The resources used up to a step."""

    step: int
    seconds: float
    cpu_seconds: float
    page_faults: int


def main(config: PretrainingConfig) -> None:
    """Trains for some pieces, and prints the figures."""
    run = dataclasses.replace(
        config.run,
        model_name="pretrain_step_benchmark",
        do_train=True,
        do_eval=False,
        do_export=False,
    )
    config = dataclasses.replace(config, run=run)
    start = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        console.keep_memory()
        console.limit_intra_op_threads(config.num_activations)
        snapshots = _train(config)
    pairs = list(itertools.pairwise(snapshots[WARMUP_PIECES:]))
    figures = {
        f"{name}_per_update": measuring.spread(
            (getattr(b, name) - getattr(a, name)) / (b.step - a.step)
            for a, b in pairs
        )
        for name in ("seconds", "cpu_seconds", "page_faults")
    }
    seconds = figures["seconds_per_update"]["median"]
    batch_size = config.training.train_batch_size
    report = {
        "benchmark": "pretrain_step",
        **measuring.machine("tensorflow", "keras"),
        "objective": config.objective.objective,
        "batch_size": batch_size,
        "max_seq_length": config.corpus.max_seq_length,
        "precision": config.training.precision,
        "seconds_to_first_update": snapshots[0].seconds - start,
        **figures,
        "sequences_per_second": batch_size / seconds,
        "peak_memory_gb": measuring.peak_memory_gb(),
    }
    print(json.dumps(report))


def _train(config: PretrainingConfig) -> list[Snapshot]:
    """Trains; returns a snapshot after each piece, and one at the first."""
    import keras

    from electra_tf.pretrain import run

    snapshots: list[Snapshot] = []

    class Meter(keras.callbacks.Callback):
        """Records a snapshot after each piece; ends the loop after the last."""

        def on_train_batch_end(self, step: int, logs: object = None) -> None:
            now = time.monotonic()
            if snapshots and now - snapshots[-1].seconds < SECONDS_PER_PIECE:
                return
            usage = resource.getrusage(resource.RUSAGE_SELF)
            cpu = usage.ru_utime + usage.ru_stime
            snapshots.append(Snapshot(step, now, cpu, usage.ru_minflt))
            self.model.stop_training = (
                len(snapshots) == WARMUP_PIECES + PIECES + 1
            )

    shutil.rmtree(config.run.model_dir, ignore_errors=True)
    try:
        run.run(config, [Meter()])
    finally:
        shutil.rmtree(config.run.model_dir, ignore_errors=True)
    return snapshots


if __name__ == "__main__":
    run_command(main, PretrainingConfig)
