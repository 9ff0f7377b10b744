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
LAYER = tuple(
    (f"encoder/layer_{{i}}/{module}", sizes)
    for module, sizes in (
        ("attention/self/query", "HH"),
        ("attention/self/key", "HH"),
        ("attention/self/value", "HH"),
        ("attention/output/dense", "HH"),
        ("attention/output/LayerNorm", "H"),
        ("intermediate/dense", "HI"),
        ("output/dense", "IH"),
        ("output/LayerNorm", "H"),
    )
)
_ENCODER = (EMBEDDINGS_NORM, EMBEDDINGS_PROJECT, *LAYER)
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


def _row(module: str, leaf: str, their_leaf: str) -> WeightNames:
    theirs = module.replace("/", ".").replace("layer_", "layer.")
    theirs = _RENAMED.get(module, theirs)
    return WeightNames(
        f"{module}/{leaf}", f"{theirs}.{their_leaf}", leaf == "kernel"
    )


ROWS = (
    *(
        WeightNames(
            f"electra/embeddings/{table}", f"electra.embeddings.{table}.weight"
        )
        for table in TABLES
    ),
    *(
        _row(module, *leaves)
        for module in (*(f"electra/{m}" for m, _ in _ENCODER), *_HEADS)
        for leaves in (
            _NORM if module.endswith("LayerNorm") else _LINEAR
        ).items()
    ),
    WeightNames("generator_predictions/output_bias", "generator_lm_head.bias"),
)


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
