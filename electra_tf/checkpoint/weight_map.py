"""The names of each weight: ours and the original's, and Hugging Face's.

Our variable paths are the original's TF1 names, so that one table of two
columns is enough. `{i}` stands for the number of a layer and `{task}` for the
name of a fine-tuning task.

| module here and in the original | module in Hugging Face's transformers |
|---|---|
| of the encoder: `_ENCODER` | below `electra.` |
| of the heads: `_HEADS` | beside it |

Inside a module the leaves are

| here | Hugging Face | |
|---|---|---|
| kernel [in, out] | weight [out, in] | transposed |
| bias | bias | |
| gamma, beta | weight, bias | LayerNorm |

Hugging Face keeps one network in a directory, so that a generator is `electra`
there; `weights.subnetwork` renames it.

Source: the original's model/modeling.py and run_pretraining.py; transformers,
models/electra/modeling_electra.py.
"""

import re
from typing import NamedTuple

from electra_tf.config.model import TABLES

_LINEAR = {"kernel": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias"}

_ENCODER = (
    ("embeddings/LayerNorm", "embeddings.LayerNorm", _NORM),
    ("embeddings_project", "embeddings_project", _LINEAR),
    *(
        (f"encoder/layer_{{i}}/{ours}", f"encoder.layer.{{i}}.{theirs}", leaves)
        for ours, theirs, leaves in (
            ("attention/self/query", "attention.self.query", _LINEAR),
            ("attention/self/key", "attention.self.key", _LINEAR),
            ("attention/self/value", "attention.self.value", _LINEAR),
            ("attention/output/dense", "attention.output.dense", _LINEAR),
            ("attention/output/LayerNorm", "attention.output.LayerNorm", _NORM),
            ("intermediate/dense", "intermediate.dense", _LINEAR),
            ("output/dense", "output.dense", _LINEAR),
            ("output/LayerNorm", "output.LayerNorm", _NORM),
        )
    ),
)
_HEADS = (
    (
        "discriminator_predictions/dense",
        "discriminator_predictions.dense",
        _LINEAR,
    ),
    (
        "discriminator_predictions/dense_1",
        "discriminator_predictions.dense_prediction",
        _LINEAR,
    ),
    ("generator_predictions/dense", "generator_predictions.dense", _LINEAR),
    (
        "generator_predictions/LayerNorm",
        "generator_predictions.LayerNorm",
        _NORM,
    ),
    # Token classification; its function is the original's tagging head.
    ("task_specific/{task}/dense", "classifier", _LINEAR),
    # Sequence classification: Hugging Face's own head, under its names.
    ("task_specific/{task}/classifier/dense", "classifier.dense", _LINEAR),
    (
        "task_specific/{task}/classifier/out_proj",
        "classifier.out_proj",
        _LINEAR,
    ),
)


class Row(NamedTuple):
    """One weight in the table.

    Attributes:
      name: ours and the original's; may hold `{i}` or `{task}`.
      hugging_face: theirs.
      is_transposed: whether their array is the transpose of ours.
    """

    name: str
    hugging_face: str
    is_transposed: bool


def _rows() -> tuple[Row, ...]:
    modules = [
        *(
            (f"electra/{a}", f"electra.{b}", leaves)
            for a, b, leaves in _ENCODER
        ),
        *_HEADS,
    ]
    return (
        *(
            Row(
                f"electra/embeddings/{table}",
                f"electra.embeddings.{table}.weight",
                is_transposed=False,
            )
            for table in TABLES
        ),
        *(
            Row(f"{ours}/{leaf}", f"{theirs}.{their_leaf}", leaf == "kernel")
            for ours, theirs, leaves in modules
            for leaf, their_leaf in leaves.items()
        ),
        Row(
            "generator_predictions/output_bias",
            "generator_lm_head.bias",
            is_transposed=False,
        ),
    )


ROWS = _rows()


def to_hugging_face(name: str) -> Row | None:
    """Returns the row of one of our names, filled in; None if there is none."""
    return _find(name, column=0)


def from_hugging_face(name: str, task: str = "task") -> Row | None:
    """Returns the row of one of their names, filled in; None if there is none.

    Args:
      name: theirs.
      task: name of the task that a fine-tuned head gets here.
    """
    return _find(name, column=1, task=task)


def _find(name: str, column: int, task: str = "") -> Row | None:
    for row in ROWS:
        pattern = re.escape(row[column])
        pattern = pattern.replace(r"\{i\}", r"(?P<i>\d+)")
        pattern = pattern.replace(r"\{task\}", r"(?P<task>[^/]+)")
        if match := re.fullmatch(pattern, name):
            values = {"task": task, **match.groupdict()}
            return Row(
                row.name.format(**values),
                row.hugging_face.format(**values),
                row.is_transposed,
            )
    return None
