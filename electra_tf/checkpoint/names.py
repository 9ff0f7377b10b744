"""The names of all weights: ours (the original's) and Hugging Face's.

Our variable paths are the original's TF1 names, so that one table of two
columns is enough. `{i}` stands for the number of a layer and `{task}` for the
name of a fine-tuning task.

Hugging Face's transformers have a dot for each slash of a module's name, except
in `_RENAMED`. The weights of a module are named

| here | Hugging Face | |
|---|---|---|
| kernel [in, out] | weight [out, in] | transposed |
| bias | bias | |
| gamma, beta | weight, bias | LayerNorm |

A Hugging Face directory holds a single network, so that a generator's encoder
is `electra` there, too; `weights.select` renames it.

Source: the original's model/modeling.py and run_pretraining.py; transformers,
models/electra/modeling_electra.py.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.config.model import TABLES

# The modules of an encoder and their sizes, two for a dense layer and one for a
# LayerNorm: E embedding, H hidden, I intermediate size.
EMBEDDINGS_NORM = ("embeddings/LayerNorm", "E")
EMBEDDINGS_PROJECT = ("embeddings_project", "EH")
LAYER = (
    ("encoder/layer_{i}/attention/self/query", "HH"),
    ("encoder/layer_{i}/attention/self/key", "HH"),
    ("encoder/layer_{i}/attention/self/value", "HH"),
    ("encoder/layer_{i}/attention/output/dense", "HH"),
    ("encoder/layer_{i}/attention/output/LayerNorm", "H"),
    ("encoder/layer_{i}/intermediate/dense", "HI"),
    ("encoder/layer_{i}/output/dense", "IH"),
    ("encoder/layer_{i}/output/LayerNorm", "H"),
)
_HEADS = (
    "discriminator_predictions/dense",
    "discriminator_predictions/dense_1",
    "generator_predictions/dense",
    "generator_predictions/LayerNorm",
    # Token classification: computes the same as the original's tagging head.
    "task_specific/{task}/dense",
    # Sequence classification: Hugging Face's own head, under its names.
    "task_specific/{task}/classifier/dense",
    "task_specific/{task}/classifier/out_proj",
)
_RENAMED = {
    "discriminator_predictions/dense_1": (
        "discriminator_predictions.dense_prediction"
    ),
    "task_specific/{task}/dense": "classifier",
    "task_specific/{task}/classifier/dense": "classifier.dense",
    "task_specific/{task}/classifier/out_proj": "classifier.out_proj",
}
_LINEAR = {"kernel": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias"}


class WeightNames(NamedTuple):
    """One weight in the table."""

    name: str
    hugging_face: str
    is_transposed: bool = False


def _rows() -> list[WeightNames]:
    rows = [
        WeightNames(f"electra/embeddings/{x}", f"electra.embeddings.{x}.weight")
        for x in TABLES
    ]
    encoder = (EMBEDDINGS_NORM, EMBEDDINGS_PROJECT, *LAYER)
    for module in (*(f"electra/{name}" for name, _ in encoder), *_HEADS):
        theirs = module.replace("/", ".").replace("layer_", "layer.")
        theirs = _RENAMED.get(module, theirs)
        leaves = _NORM if module.endswith("LayerNorm") else _LINEAR
        rows += [
            WeightNames(f"{module}/{a}", f"{theirs}.{b}", a == "kernel")
            for a, b in leaves.items()
        ]
    bias = ("generator_predictions/output_bias", "generator_lm_head.bias")
    return [*rows, WeightNames(*bias)]


ROWS = _rows()


def module_shapes(
    module: str, sizes: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each weight of a module."""
    if len(sizes) == 1:
        return {f"{module}/{leaf}": (*sizes,) for leaf in _NORM}
    return {f"{module}/kernel": (*sizes,), f"{module}/bias": (sizes[-1],)}


def to_hugging_face(name: str) -> WeightNames | None:
    """Returns the filled-in row for one of our names; None if there is none."""
    return _find(name, column=0)


def from_hugging_face(name: str, task: str = "task") -> WeightNames | None:
    """Returns the filled-in row for a name of Hugging Face's; None if none."""
    return _find(name, column=1, task=task)


def _find(name: str, column: int, task: str = "") -> WeightNames | None:
    for row in ROWS:
        pattern = re.escape(row[column])
        pattern = pattern.replace(r"\{i\}", r"(?P<i>\d+)")
        pattern = pattern.replace(r"\{task\}", r"(?P<task>[^/]+)")
        if match := re.fullmatch(pattern, name):
            values = {"task": task, **match.groupdict()}
            return WeightNames(
                row.name.format(**values),
                row.hugging_face.format(**values),
                row.is_transposed,
            )
    return None
