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
ENDINGS = ("", "/adam_m", "/adam_v")
CASES = [name for name in SUMMARY if (DIRECTORY / f"{name}.npz").exists()]


def _schedule(kwargs):
    total = kwargs["num_train_steps"]
    share = kwargs.get("warmup_proportion", 0)
    return schedules.WarmupPolynomialDecay(
        kwargs["learning_rate"],
        total,
        max(total * share, kwargs.get("warmup_steps", 0)),
        kwargs.get("lr_decay_power", 1.0),
    )


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


def _steps_ahead(arrays, step, optimizer, kwargs):
    """Infers which of two steps' rates was used, from the largest update."""
    path = next(name for name in arrays if name.startswith("init/"))[5:]
    before = arrays[f"init/{path}" if step == 0 else f"after{step - 1}/{path}"]
    after, mean, square = (
        arrays[f"after{step}/{path}{end}"].astype(float) for end in ENDINGS
    )
    update = mean / (np.sqrt(square) + optimizer.epsilon)
    update += optimizer.weight_decay_rate * before
    index = np.unravel_index(np.argmax(np.abs(update)), update.shape)
    rate = (before - after)[index] / update[index]
    rate /= optimizer.rates.get(path, 1.0)
    schedule = _schedule(kwargs)
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
    schedule = _schedule(kwargs)
    optimizer = optimization.AdamWeightDecayOptimizer(
        schedule, kwargs["weight_decay_rate"], rates=rates
    )
    optimizer.build(variables)
    for step in range(SUMMARY[name]["steps"]):
        schedule.ahead = _steps_ahead(arrays, step, optimizer, kwargs)
        gradients = [
            tf.constant(arrays[f"grad{step}/{v.path}"]) for v in variables
        ]
        norm = optimization.global_norm(variables, gradients, {})
        scale = optimization.clip_scale(norm, 1.0)
        optimizer.apply_reduced(gradients, scale=scale)
        for variable, *slots in optimizer.slots():
            pairs = zip((variable, *slots), ENDINGS, strict=True)
            for value, end in pairs:
                name = f"after{step}/{variable.path}{end}"
                assert distance(value.numpy(), arrays[name]) <= 1e-6, name
