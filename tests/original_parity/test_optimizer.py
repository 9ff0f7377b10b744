"""Our updates are the original's, step by step, from stored gradients.

`summary.json` holds case -> "kwargs" of the original's `create_optimizer`, and
CASE.npz `init/<variable>`, `grad<k>/<variable>`, `after<k>/<variable>` and its
`/adam_m` and `/adam_v`, k from 0.
"""

import contextlib
import json

import golden_arrays
import keras
import numpy as np
import pytest
import tensorflow as tf
from golden_arrays import distance

from electra_tf.model import optimization, schedules

DIRECTORY = golden_arrays.ROOT / "optimizer"
SUMMARY = json.loads((DIRECTORY / "summary.json").read_text())
CASES = [name for name in SUMMARY if (DIRECTORY / f"{name}.npz").exists()]


class _ShiftedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that is read at step + `ahead`."""

    def __init__(self, kwargs):
        total = kwargs["num_train_steps"]
        num_warmup_steps = max(
            total * kwargs.get("warmup_proportion", 0),
            kwargs.get("warmup_steps", 0),
        )
        self.schedule = schedules.WarmupPolynomialDecay(
            kwargs["learning_rate"],
            total,
            num_warmup_steps,
            kwargs.get("lr_decay_power", 1.0),
        )
        self.ahead = 0

    def __call__(self, step):
        return self.schedule(step + self.ahead)


def _variables(arrays):
    """Makes variables whose paths are the names of the arrays."""
    variables = []
    for name in arrays:
        if name.startswith("init/"):
            *scopes, leaf = name.removeprefix("init/").split("/")
            with contextlib.ExitStack() as stack:
                for scope in scopes:
                    stack.enter_context(keras.name_scope(scope))
                variables.append(keras.Variable(arrays[name], name=leaf))
    return variables


def _steps_ahead(arrays, step, optimizer, schedule):
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


@pytest.mark.parametrize("name", CASES)
def test_every_update_is_the_originals(name):
    kwargs = SUMMARY[name]["kwargs"]
    arrays = dict(np.load(DIRECTORY / f"{name}.npz"))
    variables, rates = _variables(arrays), {}
    decay = kwargs.get("layerwise_lr_decay_power", -1)
    if decay > 0:
        rates = optimization.layerwise_rates(
            [variable.path for variable in variables],
            decay,
            kwargs["n_transformer_layers"],
            original=True,
        )
    shifted = _ShiftedSchedule(kwargs)
    optimizer = optimization.AdamWeightDecayOptimizer(
        shifted, kwargs["weight_decay_rate"], rates=rates
    )
    optimizer.build(variables)
    for step in range(SUMMARY[name]["steps"]):
        shifted.ahead = _steps_ahead(arrays, step, optimizer, shifted.schedule)
        gradients = [
            tf.constant(arrays[f"grad{step}/{v.path}"]) for v in variables
        ]
        norm = optimization.global_norm(variables, gradients, {})
        scale = optimization.clip_scale(norm, 1.0)
        optimizer.apply_reduced(gradients, scale=scale)
        for state in zip(
            variables, optimizer.means, optimizer.squares, strict=True
        ):
            path = state[0].path
            for value, end in zip(
                state, ("", "/adam_m", "/adam_v"), strict=True
            ):
                theirs = arrays[f"after{step}/{path}{end}"]
                assert distance(value.numpy(), theirs) <= 1e-6, (
                    step,
                    path,
                )
