"""The training loop: blocks of steps, checkpoints and signals.

Why not Keras' `fit`: it fails with several workers, clips before the sum over
replicas, cannot resume exactly, and cannot be stopped in between. The loop
calls the same model's `update` and the same Keras callbacks.

An exact resume relies on three rules:
  1. A checkpoint holds weights, slots and the step, and is complete.
  2. Random numbers are functions of (seed, step, row): see `seeds.py`.
  3. The data are a function of (seed, step): the iterator can start anywhere.
So a run that was killed and restarted ends with the same bits.
"""

import contextlib
import dataclasses
import gc
import itertools
import signal
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.config.optimizer import ComputeConfig
from electra_tf.training.updates import UpdatedModel
from electra_tf.util import console, distribution
from electra_tf.util.errors import (
    NonFiniteLossError,
    StoppedBySignal,
    UserError,
)
from electra_tf.util.flags import flatten

_SECONDS_PER_PART = 5.0  # of a block, after which the host gets control
SHARED_FIELDS = frozenset(
    {
        "do_eval",
        "do_train",
        "eval_batch_size",
        "gradient_accumulation_steps",
        "iterations_per_loop",
        "save_checkpoints_steps",
    }
)
"""Fields of the free parts of any configuration that workers must share."""


def join_workers(
    runtime: ComputeConfig, settings: Mapping[str, str]
) -> tf.distribute.Strategy:
    """Makes the strategy of a run, once all its workers share the settings."""
    strategy = distribution.make_strategy(runtime.strategy)
    distribution.Workers(strategy).check_same_values(settings)
    return strategy


def shared_settings(
    config: Any,  # noqa: ANN401 (a configuration with FREE_PARTS)
    shared_fields: Collection[str],
) -> dict[str, str]:
    """Returns field -> value of the settings that affect computation."""
    parts = dataclasses.asdict(config)
    free = flatten({name: parts.pop(name) for name in config.FREE_PARTS})
    values = flatten(parts) | {k: free[k] for k in sorted(shared_fields)}
    return {name: repr(value) for name, value in values.items()}


def weight_digests(store: Checkpoints) -> dict[str, str]:
    """Returns the step and a checksum of the variables, shared by workers."""
    checksum = 0
    for variable in store.variables.values():
        checksum = zlib.crc32(variable.numpy().tobytes(), checksum)
    return {
        "step": str(store.variables[STEP].numpy()),
        "weights": f"{checksum:08x}",
    }


class Schedule(NamedTuple):
    """Steps at which the loop stops or saves checkpoints."""

    num_train_steps: int
    iterations_per_loop: int
    save_checkpoints_steps: int
    milestones: frozenset[int] = frozenset()
    borders: frozenset[int] = frozenset()

    def next_stop(self, step: int) -> int:
        """Returns the step at which the block that starts at `step` ends."""
        if step == 0:
            return 1  # so that the first loss is logged by itself
        periods = (self.iterations_per_loop, self.save_checkpoints_steps)
        stops = {(step // period + 1) * period for period in periods}
        stops |= {x for x in self.milestones | self.borders if x > step}
        return min(stops | {self.num_train_steps})

    def saves_at(self, step: int) -> bool:
        """Returns whether a checkpoint is due after update `step`."""
        return (
            step % self.save_checkpoints_steps == 0
            or step == self.num_train_steps
            or step in self.milestones
        )


class InterleavedBatches(NamedTuple):
    """Batches of several shapes, and their order."""

    iterators: tuple[Iterator, ...]
    order: Iterator[int]

    def runs(self, num_steps: int) -> Iterator[tuple[Iterator, int]]:
        """Yields each run of consecutive updates: its iterator, its length."""
        taken = itertools.islice(self.order, num_steps)
        for number, run in itertools.groupby(taken):
            yield self.iterators[number], len(list(run))


Batches = Iterator | InterleavedBatches
LoggedSums = dict[str, np.ndarray]
"""Metric -> float32 [n, 2], its total and weight at each of n updates."""


def train(
    model: UpdatedModel,
    batches: Callable[[int], Batches],
    schedule: Schedule,
    *,
    strategy: tf.distribute.Strategy,
    save: Callable[[int], None],
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> None:
    """Trains from the model's step to the end of the schedule."""
    step = int(model.optimizer.iterations.numpy())
    runner = keras.callbacks.CallbackList(list(callbacks), model=model)
    block = make_block(model, strategy)
    workers = distribution.Workers(strategy)
    steps_per_second = 0.0
    model.stop_training = is_ended = False
    stop = StopSignal()
    with console.handled_by(stop.receive):
        runner.on_train_begin()
        iterator = None
        while step < schedule.num_train_steps and not is_ended:
            if iterator is None or step in schedule.borders:
                iterator = batches(step)
            stop_at, parts = schedule.next_stop(step), []
            while step < stop_at and not any(
                workers.any(stop.received, model.stop_training)
            ):
                size = steps_per_second * _SECONDS_PER_PART
                size = int(workers.gather([size])[0, 0])  # of the chief
                size = max(1, min(stop_at - step, size))
                began = time.monotonic()
                parts.append(block(iterator, size))
                check_finite(parts[-1], step, model.loss_weights)
                steps_per_second = size / (time.monotonic() - began)
                step += size
                logs = means(parts[-1:], model.loss_weights)
                logs["steps_per_second"] = steps_per_second
                runner.on_train_batch_end(step, logs)
            if parts:  # a part of the block if training is to stop
                logs = means(parts, model.loss_weights)
                logs["steps_per_second"] = steps_per_second
                runner.on_epoch_end(step, logs)
            flags = workers.any(stop.received, model.stop_training)
            if schedule.saves_at(step) or any(flags):
                _save_together(save, step, workers)
                flags = workers.any(
                    stop.received, model.stop_training or flags[1]
                )
            is_stopped, is_ended = flags
            if is_stopped:  # also at the last step: more trials may follow
                raise StoppedBySignal(step)
        runner.on_train_end()


def _save_together(
    save: Callable[[int], None], step: int, workers: distribution.Workers
) -> None:
    """Saves a checkpoint; raises on all workers if any of them fails."""
    error = None
    try:
        save(step)
    except Exception as caught:
        error = caught
    if workers.any(error is not None)[0]:
        raise error or UserError(
            f"The checkpoint of step {step} must be written. Received: an "
            "error of another worker; its log says which."
        )


class StopSignal:
    """Remembers a signal; the second one ends the process."""

    received = False

    def receive(self, number: int, _: object) -> None:
        if self.received:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.received = True


def make_block(
    model: UpdatedModel,
    strategy: tf.distribute.Strategy,
    *,
    run_eagerly: bool = False,
) -> Callable[[Batches, int], LoggedSums]:
    """Makes a function that runs n updates."""
    names: list[str] = []

    def one_update(iterator: Iterator) -> tf.Tensor:
        metrics = strategy.run(model.update, args=(next(iterator),))
        names[:] = sorted(metrics)
        local = strategy.experimental_local_results
        return tf.stack(
            [tf.stack([local(x)[0] for x in metrics[n]]) for n in names]
        )

    def updates(iterator: Iterator, num_steps: tf.Tensor) -> tf.Tensor:
        def run(i: tf.Tensor, records: tf.TensorArray) -> tuple:
            return i + 1, records.write(i, one_update(iterator))

        records = tf.TensorArray(tf.float32, size=num_steps)
        records = tf.while_loop(
            lambda i, _: i < num_steps, run, (tf.constant(0), records)
        )[1]
        return records.stack()  # [n, metrics, 2]

    if not run_eagerly:
        # No Python code of an update branches on a tensor, and autograph would
        # take half of the tracing time to look for it.
        updates = tf.function(updates, autograph=False)

    def block(batches: Batches, num_steps: int) -> LoggedSums:
        runs = [(batches, num_steps)]
        if isinstance(batches, InterleavedBatches):
            runs = batches.runs(num_steps)
        parts = [updates(x, tf.constant(n)) for x, n in runs]
        # Read after all are started, so that no run waits for the one before.
        records = np.concatenate([part.numpy() for part in parts])
        return {name: records[:, i] for i, name in enumerate(names)}

    return block


def check_finite(
    sums: LoggedSums, start: int, loss_weights: dict[str, float]
) -> None:
    """Raises if the loss or gradient of an update after `start` is not."""
    values = np.concatenate([*sums.values()], 1)
    if np.isfinite(values).all():
        return
    first = int(np.argmin(np.isfinite(values).all(1)))
    bad = [name for name, x in sums.items() if not np.isfinite(x[first]).all()]
    raise NonFiniteLossError(
        f"The loss is {losses(sums, loss_weights)[first]:.4g} at step "
        f"{start + first + 1}; not finite: {', '.join(bad)}. Checkpoints hold "
        "finite weights: start from one with --init_checkpoint, a lower "
        "--learning_rate and another --model_name."
    )


def losses(sums: LoggedSums, loss_weights: dict[str, float]) -> np.ndarray:
    """Returns the total loss at each update, float64 [n]."""
    return sum(
        weight * ratio(sums[name]) for name, weight in loss_weights.items()
    )


def ratio(sums: np.ndarray) -> np.ndarray:
    """Divides totals by weights, [..., 2] -> [...]; 0 if the weight is 0."""
    total, weight = sums[..., 0].astype(float), sums[..., 1].astype(float)
    return np.where(weight == 0, 0.0, total / np.where(weight == 0, 1, weight))


def means(
    parts: Sequence[LoggedSums], loss_weights: dict[str, float]
) -> dict[str, float]:
    """Returns the means of the total loss, "loss", and of each metric."""
    sums = {name: np.concatenate([x[name] for x in parts]) for name in parts[0]}
    found = {"loss": float(np.mean(losses(sums, loss_weights)))}
    for name, values in sums.items():
        if values[:, 1].any():
            found[name] = float(ratio(values.astype(float).sum(0)))
    return found


def custom_gradients() -> set[str]:
    names = ops.gradient_registry.list()
    return {name for name in names if name.startswith("CustomGradient-")}


@contextlib.contextmanager
def freed_graphs() -> Iterator[None]:
    """Frees unreferenced graphs and models of the block when it ends.

    `tf.custom_gradient` registers a gradient for each call in a graph, and
    never removes it; it references the graph, and so the model.
    """
    before = custom_gradients()
    try:
        yield
    finally:
        for name in custom_gradients() - before:
            # The table has no method to remove an entry.
            del ops.gradient_registry._registry[name]
        gc.collect()  # graphs are cycles, and few of them hold much memory
