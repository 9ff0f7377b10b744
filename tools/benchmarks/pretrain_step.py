r"""Measures the training loop of `run_pretraining`; prints one JSON line.

    python tools/benchmarks/pretrain_step.py --flagfile=configs/small.cfg \
        --train_batch_size=32

The command's own loop runs on the records in --data_dir, with its logs, in a
model directory that is removed afterwards. Missing records are built first, in
a process of their own. Times, page faults and CPU seconds are those of whole
updates, after three callbacks of warm-up, over seven pieces of at least four
seconds. A piece disturbed by another process does not count, and a busy machine
is refused (`machine.py`). For the objective `electra`, GFLOP/s count the matrix
products of the update (`matrix_products.py`).
"""

import contextlib
import dataclasses
import itertools
import json
import multiprocessing
import resource
import shutil
import sys
import time
from typing import ClassVar, NamedTuple

import machine
import matrix_products
from reports import spread

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import config_flags, console, memory, threads
from electra_tf.util.errors import UserError

_MODEL_NAME = "pretrain_step_benchmark"
_NUM_WARMUP_SNAPSHOTS = 3
_NUM_PIECES = 7
_SECONDS_PER_PIECE = 4.0
_FIGURES = {
    "seconds": "seconds",
    "user_seconds": "ru_utime",
    "kernel_seconds": "ru_stime",
    "page_faults": "ru_minflt",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(machine.QuietConfig):
    """A run, and the load of others at which to refuse its figures."""

    pretraining: PretrainingConfig

    ORIGINAL_NAMES: ClassVar = PretrainingConfig.ORIGINAL_NAMES


class Snapshot(NamedTuple):
    """The resources used up to a callback of the loop."""

    step: int
    seconds: float
    usage: resource.struct_rusage
    is_counted: bool

    def figure(self, name: str) -> float:
        """Returns a figure, accumulated since the process started."""
        return getattr(self if name == "seconds" else self.usage, name)


def main(benchmark: BenchmarkConfig) -> None:
    """Trains for some pieces, and prints the figures."""
    config = _training_only(benchmark.pretraining)
    with contextlib.redirect_stdout(sys.stderr):
        _prepare_in_own_process(config)
        quiet = machine.QuietMachine(benchmark.busy_limit)
        start_time = time.monotonic()
        memory.keep_if(config.runtime.keep_memory)
        threads.limit_intra_op_threads(config.num_activations)
        snapshots, num_words = _train(config, quiet)
    report = {
        "benchmark": "pretrain_step",
        **quiet.report(),
        **machine.versions("tensorflow", "keras"),
        "objective": config.objective.objective,
        "model_size": config.model.model_size,
        "batch_size": config.training.train_batch_size,
        "max_seq_length": config.corpus.max_seq_length,
        "precision": config.training.precision,
        "jit_compile": config.runtime.jit_compile,
        "keep_memory": config.runtime.keep_memory,
        "recompute": config.runtime.recompute,
        "seconds_to_first_update": snapshots[0].seconds - start_time,
        **_figures(snapshots, config, num_words),
    }
    print(json.dumps(report))


def _training_only(config: PretrainingConfig) -> PretrainingConfig:
    """Returns a configuration that only trains, in a directory of its own."""
    run = dataclasses.replace(
        config.run,
        model_name=_MODEL_NAME,
        do_train=True,
        do_eval=False,
        do_export=False,
    )
    return dataclasses.replace(config, run=run)


def _prepare_in_own_process(config: PretrainingConfig) -> None:
    """Builds missing data in a process of its own."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_prepare, args=(config,))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(process.exitcode)  # the process has printed the error


def _prepare(config: PretrainingConfig) -> None:
    with console.quiet_imports():
        from electra_tf.data import preparation
    try:
        with contextlib.redirect_stdout(sys.stderr):
            preparation.prepare(config)
    except Exception as error:
        sys.exit(console.report(error))


def _train(
    config: PretrainingConfig, quiet: machine.QuietMachine
) -> tuple[list[Snapshot], int]:
    """Trains; returns the snapshots, and the size of the vocabulary."""
    with console.quiet_imports():
        import keras

        from electra_tf.pretrain import run as pretraining_run

    class Meter(keras.callbacks.Callback):
        """Records a snapshot after each piece; ends the loop after the last."""

        def __init__(self) -> None:
            super().__init__()
            self.snapshots = []
            self._load = machine.OtherLoad()

        def on_train_batch_end(self, step: int, logs: object = None) -> None:
            now = time.monotonic()
            is_warm = len(self.snapshots) >= _NUM_WARMUP_SNAPSHOTS
            if (
                is_warm
                and now - self.snapshots[-1].seconds < _SECONDS_PER_PIECE
            ):
                return
            usage = resource.getrusage(resource.RUSAGE_SELF)
            is_counted = is_warm and quiet.accepts(self._load.share())
            self.snapshots.append(Snapshot(step, now, usage, is_counted))
            if sum(x.is_counted for x in self.snapshots) == _NUM_PIECES:
                self.model.stop_training = True
            self._load = machine.OtherLoad()

    meter = Meter()
    shutil.rmtree(config.run.model_dir, ignore_errors=True)
    try:
        pretraining_run.run(config, callbacks=[meter])
    finally:
        shutil.rmtree(config.run.model_dir, ignore_errors=True)
    return meter.snapshots, meter.model.vocabulary.size


def _figures(
    snapshots: list[Snapshot], config: PretrainingConfig, num_words: int
) -> dict[str, object]:
    """Returns the costs of an update: minimum, median, maximum over pieces."""
    pairs = [x for x in itertools.pairwise(snapshots) if x[1].is_counted]
    if not pairs:
        raise UserError(
            f"`num_train_steps` must be enough for {_NUM_PIECES} pieces of "
            f"{_SECONDS_PER_PIECE:.0f} seconds, after a warm-up. Received: "
            f"num_train_steps={config.training.num_train_steps}."
        )
    figures = {
        f"{name}_per_update": spread(
            (end.figure(source) - start.figure(source))
            / (end.step - start.step)
            for start, end in pairs
        )
        for name, source in _FIGURES.items()
    }
    user, kernel = (
        sum(b.figure(name) - a.figure(name) for a, b in pairs)
        for name in ("ru_utime", "ru_stime")
    )
    per_second = (
        config.training.train_batch_size
        / figures["seconds_per_update"]["median"]
    )
    speed = {"sequences_per_second": per_second}
    if config.objective.objective == "electra":
        gflop = matrix_products.update_flops(config, num_words) / 1e9
        speed["gflop_per_sequence"] = gflop
        speed["gflop_per_second"] = gflop * per_second
    return {
        **figures,
        "kernel_share_of_cpu": kernel / (user + kernel),
        **speed,
        "peak_memory_gib": snapshots[-1].usage.ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
