"""Repeats updates of the original's optimizer on stored gradients.

Files in the directory of the cases: `summary.json`, case -> "kwargs" of the
original's `create_optimizer`; and CASE.npz with `init/<variable>`,
`grad<k>/<variable>`, `after<k>/<variable>` and its `/adam_m` and `/adam_v`, k
from 0.
"""

import contextlib
import json
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.model import optimization, schedules
from original_parity.networks import relative

Arrays = Mapping[str, np.ndarray]


class Result(NamedTuple):
    """The result of comparing one case."""

    weights: float
    slots: float
    steps_ahead: list[int]


def cases(directory: pathlib.Path) -> list[str]:
    """Returns the names of the cases whose arrays exist."""
    summary = json.loads((directory / "summary.json").read_text())
    return [name for name in summary if (directory / f"{name}.npz").exists()]


def compare(directory: pathlib.Path, name: str) -> Result:
    """Repeats the updates of a case, and compares all state after each."""
    summary = json.loads((directory / "summary.json").read_text())[name]
    arrays = dict(np.load(directory / f"{name}.npz"))
    variables = _variables(arrays)
    rates = _rates(variables, summary["kwargs"])
    schedule = _schedule(summary["kwargs"])
    shifted = _ShiftedSchedule(schedule)
    optimizer = optimization.AdamWeightDecayOptimizer(
        shifted, summary["kwargs"]["weight_decay_rate"], rates=rates
    )
    optimizer.build(variables)
    weights, slots, steps_ahead = 0.0, 0.0, []
    for step in range(summary["steps"]):
        shifted.ahead = _steps_ahead(arrays, step, optimizer, schedule)
        steps_ahead.append(shifted.ahead)
        _update(optimizer, variables, arrays, step)
        after = f"after{step}"
        rows = zip(variables, optimizer.means, optimizer.squares, strict=True)
        for variable, mean, square in rows:
            theirs = arrays[f"{after}/{variable.path}"]
            weights = max(weights, relative(variable.numpy(), theirs))
            for slot, end in ((mean, "adam_m"), (square, "adam_v")):
                theirs = arrays[f"{after}/{variable.path}/{end}"]
                slots = max(slots, relative(slot.numpy(), theirs))
    return Result(weights, slots, steps_ahead)


class _ShiftedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that is read at step + `ahead`."""

    def __init__(self, schedule: schedules.WarmupPolynomialDecay) -> None:
        self.schedule = schedule
        self.ahead = 0

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        return self.schedule(step + self.ahead)


def _variables(arrays: Arrays) -> list[keras.Variable]:
    """Makes variables whose paths are the names of the arrays."""
    made = []
    for name in arrays:
        if name.startswith("init/"):
            *scopes, leaf = name.removeprefix("init/").split("/")
            with contextlib.ExitStack() as stack:
                for scope in scopes:
                    stack.enter_context(keras.name_scope(scope))
                made.append(keras.Variable(arrays[name], name=leaf))
    return made


def _schedule(kwargs: Mapping) -> schedules.WarmupPolynomialDecay:
    total = kwargs["num_train_steps"]
    return schedules.WarmupPolynomialDecay(
        kwargs["learning_rate"],
        total,
        max(
            total * kwargs.get("warmup_proportion", 0),
            kwargs.get("warmup_steps", 0),
        ),
        kwargs.get("lr_decay_power", 1.0),
    )


def _rates(variables: list[keras.Variable], kwargs: Mapping) -> dict:
    decay = kwargs.get("layerwise_lr_decay_power", -1)
    if decay <= 0:
        return {}
    return optimization.layerwise_rates(
        [variable.path for variable in variables],
        decay,
        kwargs["n_transformer_layers"],
        original=True,
    )


def _update(
    optimizer: optimization.AdamWeightDecayOptimizer,
    variables: list[keras.Variable],
    arrays: Arrays,
    step: int,
) -> None:
    gradients = [tf.constant(arrays[f"grad{step}/{v.path}"]) for v in variables]
    norm = optimization.global_norm(variables, gradients, {})
    scale = optimization.clip_scale(norm, 1.0)
    optimizer.apply_reduced(gradients, scale=scale)


def _steps_ahead(
    arrays: Arrays,
    step: int,
    optimizer: optimization.AdamWeightDecayOptimizer,
    schedule: schedules.WarmupPolynomialDecay,
) -> int:
    """Infers which of two steps' rates was used, from the largest update."""
    path = next(name for name in arrays if name.startswith("init/"))[5:]
    before = arrays[f"init/{path}" if step == 0 else f"after{step - 1}/{path}"]
    after, mean, square = (
        arrays[f"after{step}/{path}{end}"].astype(float)
        for end in ("", "/adam_m", "/adam_v")
    )
    update = mean / (np.sqrt(square) + optimizer.epsilon)
    update += optimizer.weight_decay_rate * before
    index = np.unravel_index(np.argmax(np.abs(update)), update.shape)
    rate = (before - after)[index] / update[index]
    rate /= optimizer.rates.get(path, 1.0)
    distances = [abs(float(schedule(step + i)) - rate) for i in (0, 1)]
    return int(distances[1] <= distances[0])
