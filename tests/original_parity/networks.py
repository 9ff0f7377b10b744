"""Repeats forward passes, gradients and updates of the original.

A case is one configuration, with weights, a batch and noise, and everything
that the original computed from them. Files of the case NAME in its directory:

    NAME_info.json    "config": the original's hyperparameters
    NAME_vars.npz     variables by their TF1 names
    NAME_forward.npz  `in/*` the batch, `noise/*` the random numbers, the rest
                      is computed from them
    NAME_grads.npz    the gradient of each variable
    NAME_after_steps.npz  variables and slots after some updates; may be absent

The model runs with the `original_...` switches on, and with the same noise.
"""

import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import optimization
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.pretrain.random_keys import Purpose, RandomKeys
from electra_tf.util import distribution
from electra_tf.util.flags import leaves, parse_flags
from original_parity.quantities import quantities

Arrays = Mapping[str, np.ndarray]

tf.config.experimental.enable_tensor_float_32_execution(False)
_SWITCHES = (
    "--data_dir=unused",
    "--original_masking",
    "--original_sampling",
    "--original_noise_odds",
    "--original_clip_norm",
    "--original_lr_step",
    "--hidden_dropout_prob=0",
    "--attention_probs_dropout_prob=0",
)


class Case(NamedTuple):
    """One configuration and what the original computed with it."""

    config: PretrainingConfig
    arrays: Arrays
    variables: Arrays
    gradients: Arrays
    after_steps: Arrays


class Difference(NamedTuple):
    """The difference of one of our values from the original's."""

    quantity: str
    value: float
    is_relative: bool


def cases(directory: pathlib.Path) -> list[str]:
    """Returns the names of the cases."""
    return [
        path.name.removesuffix("_info.json")
        for path in sorted(directory.glob("*_info.json"))
    ]


def load(directory: pathlib.Path, name: str) -> Case:
    """Reads a case."""

    def read(kind: str) -> Arrays:
        path = directory / f"{name}_{kind}.npz"
        return dict(np.load(path)) if path.exists() else {}

    info = json.loads((directory / f"{name}_info.json").read_text())
    return Case(
        _parse_config(info),
        read("forward"),
        read("vars"),
        read("grads"),
        read("after_steps"),
    )


def compare(case: Case) -> Iterator[Difference]:
    """Compares all common values, gradients, and weights after updates."""
    model = make_model(case)
    inputs, keys = batch(case), random_keys(case)
    ours = quantities(model, inputs, keys)
    for name, theirs in case.arrays.items():
        if name in ours:
            distance = np.abs(ours[name].astype(float) - theirs).max()
            yield Difference(name, float(distance), is_relative=False)
    yield from _compare_gradients(model, case, inputs, keys)
    yield from _compare_updates(model, case, inputs, keys)


def make_model(case: Case) -> PretrainingModel:
    """Makes our model of a case, with its weights."""
    model = pretraining_run.make_model(
        case.config, _vocabulary(case), distribution.make_strategy("one")
    )
    for variable in model.trainable_variables:
        variable.assign(case.variables[variable.path])
    return model


def batch(case: Case) -> Inputs:
    """Returns the batch of a case."""
    return Inputs(
        *(tf.constant(case.arrays[f"in/{name}"]) for name in Inputs._fields)
    )


def random_keys(case: Case) -> RandomKeys:
    """Turns the noise of a case into the uniform numbers that we draw."""
    positions = case.arrays["noise/masked_lm_positions_raw"]  # [B, N]
    candidates = np.isfinite(case.arrays["mask/sample_logits"])  # [B, L]
    ranks = np.cumsum(candidates, 1) - 1
    rank = np.take_along_axis(ranks, positions, 1)
    uniform = (rank + 0.5) / candidates.sum(1, keepdims=True)
    arrays = {
        Purpose.MASK_POSITIONS: uniform,
        Purpose.MASK_CONTENT: case.arrays["noise/u_mask"],
        Purpose.SAMPLE: case.arrays["noise/u_gumbel"],
    }
    return {
        purpose: tf.constant(array.astype(np.float32))
        for purpose, array in arrays.items()
    }


def _compare_gradients(
    model: PretrainingModel, case: Case, inputs: Inputs, keys: RandomKeys
) -> Iterator[Difference]:
    if not case.gradients:
        return
    sums = model.forward_backward(
        inputs, keys, model.loss_denominators(inputs, keys=keys)
    )
    ours = {
        variable.path: gradient.numpy()
        for variable, gradient in zip(
            model.trainable_variables, sums.gradients, strict=True
        )
    }
    yield from _largest_differences("gradients", ours, case.gradients)
    norm = optimization.global_norm(
        model.trainable_variables, sums.gradients, sums.lookups
    )
    distance = relative(
        norm.numpy(), case.gradients["__global_norm_as_original__"]
    )
    yield Difference("gradient norm", distance, is_relative=True)


def _compare_updates(
    model: PretrainingModel, case: Case, inputs: Inputs, keys: RandomKeys
) -> Iterator[Difference]:
    """Repeats the updates of the case, all on the same batch and noise."""
    variables = pretraining_run.checkpoint_variables(model)
    for step in itertools.count(1):
        prefix = f"step{step}/"
        theirs = {
            name.removeprefix(prefix): value
            for name, value in case.after_steps.items()
            if name.startswith(prefix)
        }
        if not theirs:
            return
        model.update_with_keys(inputs, keys=keys)
        ours = {name: variable.numpy() for name, variable in variables.items()}
        yield from _largest_differences(f"after update {step}", ours, theirs)


def _largest_differences(
    quantity: str, ours: Arrays, theirs: Arrays
) -> Iterator[Difference]:
    """Yields the largest difference, and that of the key biases."""
    noise = {name for name in ours if "/key/bias" in name}
    worst = max(relative(ours[n], theirs[n]) for n in ours.keys() - noise)
    yield Difference(quantity, worst, is_relative=True)
    largest = max(
        float(np.abs(ours[name] - theirs[name]).max()) for name in noise
    )
    yield Difference(f"{quantity}, key biases", largest, is_relative=False)


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Returns the norm of the difference divided by the norm of theirs."""
    difference = np.linalg.norm(np.asarray(ours, float) - theirs)
    size = np.linalg.norm(theirs)
    return float(difference / size) if size else float(difference)


def _parse_config(info: dict) -> PretrainingConfig:
    """Converts the original's hyperparameters to our configuration."""
    known = {leaf.field.name for leaf in leaves(PretrainingConfig)} | {
        *PretrainingConfig.ORIGINAL_NAMES,
        "model_hparam_overrides",
    }
    hparams = {k: v for k, v in info["config"].items() if k in known}
    if optimizer := info.get("optimizer"):
        hparams |= {
            "learning_rate": optimizer["lr"],
            "num_train_steps": optimizer["num_train_steps"],
            "num_warmup_steps": optimizer["warmup"],
            "weight_decay_rate": optimizer["wd"],
        }
    return parse_flags(
        PretrainingConfig, [*_SWITCHES, f"--hparams={json.dumps(hparams)}"]
    )


def _vocabulary(case: Case) -> Vocabulary:
    """Makes a vocabulary of the batch's special tokens and dummy words."""
    arrays = case.arrays
    ids = arrays["in/input_ids"]
    changed = arrays["mask/input_ids"] != ids
    length = arrays["in/input_mask"][0].sum()
    special = {
        0: "[PAD]",
        int(ids[0, 0]): "[CLS]",
        int(ids[0, length - 1]): "[SEP]",
        int(arrays["mask/input_ids"][changed][0]): "[MASK]",
    }
    size = len(case.variables["electra/embeddings/word_embeddings"])
    special[min(set(range(size)) - special.keys())] = "[UNK]"
    return Vocabulary(tuple(special.get(i, f"w{i}") for i in range(size)))
