"""Keras callbacks of a run: progress bar, JSON log, TensorBoard."""

import datetime
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from etils import epath

from electra_tf.config.corpus import Phase, phase_at, tokens_after
from electra_tf.training import training_utils
from electra_tf.util import console, files

_SECONDS_BETWEEN_LINES = 10.0
TRAINING_FLOPS = "training_flops"
METRICS_FILE = "metrics.jsonl"
"""Name of the log of a run or trial, written by `JsonLog`."""


class ProgressBar(keras.callbacks.Callback):
    """Shows step, speed, losses and time left on one line."""

    def __init__(
        self, phases: Sequence[Phase], *, short_names: dict[str, str]
    ) -> None:
        super().__init__()
        self.phases = phases
        self.short_names = short_names
        self.stream = sys.stderr
        self._speed = 0.0  # updates per second, smoothed
        self._tokens_per_second = 0.0  # without tracing; 0 until known
        self._phase = -1
        self._num_blocks = 0  # in this phase
        self._last_line = 0.0

    def on_train_begin(self, logs: dict | None = None) -> None:
        step = int(self.model.optimizer.iterations.numpy())
        if step < self.phases[-1].end_step:
            console.say(
                f"Training from step {step:,}. The first update is traced and "
                "compiled, which takes tens of seconds."
            )

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        logs = logs or {}
        phase = phase_at(self.phases, batch - 1)
        if phase != self._phase:
            self._phase, self._num_blocks = phase, 0
        self._num_blocks += 1
        speed = logs["steps_per_second"]
        is_warm = self._num_blocks > 2
        self._speed = 0.8 * self._speed + 0.2 * speed if is_warm else speed
        if self._num_blocks > 1:
            per_step = self.phases[phase].tokens_per_step
            self._tokens_per_second = self._speed * per_step
        is_last = batch >= self.phases[-1].end_step
        now = time.monotonic()
        if self.stream.isatty():
            end = "\n" if is_last else ""
            self.stream.write("\r\x1b[K" + self.line(batch, logs) + end)
        elif is_last or now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.stream.write(self.line(batch, logs) + "\n")
        self.stream.flush()

    def line(self, step: int, logs: dict[str, float]) -> str:
        num_steps = self.phases[-1].end_step
        share = 100 * step / num_steps
        phase = self.phases[phase_at(self.phases, step - 1)]
        length = f" of {phase.max_seq_length}" if len(self.phases) > 1 else ""
        values = [
            f"step {step:,}/{num_steps:,} {share:5.1f}%",
            f"{self._speed * phase.batch_size:,.1f} sequences/s{length}",
        ]
        for name, short in self.short_names.items():
            if name in logs:
                values.append(f"{short} {logs[name]:.3f}")
        if TRAINING_FLOPS in logs:
            values.append(f"{logs[TRAINING_FLOPS]:.1e} FLOPs")
        if self._tokens_per_second:
            left = tokens_after(self.phases, step) / self._tokens_per_second
            values.append(f"ETA {datetime.timedelta(seconds=round(left))}")
        return "  ".join(values)


class TrainingFlops(keras.callbacks.Callback):
    """Adds the training FLOPs so far to the logs of later callbacks."""

    def __init__(self, flops: Callable[[int], int]) -> None:
        super().__init__()
        self.flops = flops

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if logs is not None:
            logs[TRAINING_FLOPS] = self.flops(batch)

    on_epoch_end = on_train_batch_end


class JsonLog(keras.callbacks.Callback):
    """Appends one JSON line of metrics at each stop of the schedule."""

    def __init__(
        self, path: files.StrPath, *, first_step: int, phases: Sequence[Phase]
    ) -> None:
        super().__init__()
        self._path = epath.Path(path)
        self.first_step = first_step
        self.phases = phases

    def on_train_begin(self, logs: dict | None = None) -> None:
        if self._path.exists():
            lines = self._path.read_bytes().splitlines(keepends=True)
            kept = [x for x in lines if _step_of(x) <= self.first_step]
            files.atomic_write_bytes(self._path, b"".join(kept))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        record = {"step": epoch, **(logs or {})}
        speed = record.pop("steps_per_second")
        phase = self.phases[phase_at(self.phases, epoch - 1)]
        record["max_seq_length"] = phase.max_seq_length
        record["sequences_per_second"] = speed * phase.batch_size
        record["tokens_per_second"] = speed * phase.tokens_per_step
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")


class EpochMeans(keras.callbacks.Callback):
    """Replaces the logs of an epoch's last update by means over the epoch."""

    def __init__(self, loss_weights: dict[str, float]) -> None:
        super().__init__()
        self.loss_weights = loss_weights
        self.sums: list[training_utils.LoggedSums] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.sums.clear()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.sums:  # else the data ended with the epoch before
            logs.update(training_utils.means(self.sums, self.loss_weights))


class TensorBoardLog(keras.callbacks.Callback):
    """Writes the metrics as TensorBoard scalars."""

    def __init__(self, directory: files.StrPath) -> None:
        import tensorboard  # noqa: F401 (without it nothing shows the files)

        super().__init__()
        self._writer = tf.summary.create_file_writer(os.fspath(directory))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        with self._writer.as_default(step=epoch):
            for name, value in (logs or {}).items():
                # FLOPs exceed int64.
                tf.summary.scalar(name, float(value))

    def on_train_end(self, logs: dict | None = None) -> None:
        self._writer.close()


def _step_of(line: bytes) -> float:
    """Returns a line's step; infinity if the line is damaged."""
    try:
        return float(json.loads(line.decode(errors="replace"))["step"])
    except (KeyError, OverflowError, TypeError, ValueError):
        return math.inf
