"""Conversion between Hugging Face's tensors and our arrays.

`names` covers most of them. The exceptions are handled here:

- a bare encoder is saved without the prefix `electra.`;
- old files name the weights of LayerNorm gamma and beta;
- the generator's output table is its word embeddings, in some files saved
  twice;
- the two scores of question answering, of the start and of the end, are one
  matrix there and two here.
"""

import pathlib

import numpy as np

from electra_tf.checkpoint import names
from electra_tf.checkpoint.hugging_face.config import (
    CLASSES,
    ENCODER,
    MASKED_LM,
    QA_MODULES,
    QUESTION_ANSWERING,
    Config,
)
from electra_tf.checkpoint.weights import Weights
from electra_tf.util.errors import UserError, listed

_PREFIX = "electra."
_ENCODER = ("embeddings.", "embeddings_project.", "encoder.")
_TIED = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"
_QA_LEAVES = {"kernel": "qa_outputs.weight", "bias": "qa_outputs.bias"}

Arrays = dict[str, np.ndarray]


def from_hugging_face(
    path: pathlib.Path, tensors: Arrays, config: Config
) -> tuple[str, Arrays]:
    """Returns the class of a network and its arrays under our names."""
    tensors = _full_names(path, tensors)
    class_name = _check_class(path, tensors, config)
    _untie(path, tensors, config, class_name)
    return class_name, _to_ours(path, tensors, config.task)


def to_hugging_face(weights: Weights, class_name: str) -> Arrays:
    """Returns tensors with Hugging Face's names and layout."""
    arrays = {n: np.asarray(x, np.float32) for n, x in weights.arrays.items()}
    tensors, done = {}, set()
    if class_name == QUESTION_ANSWERING:
        (task,) = weights.architecture.tasks
        for leaf, theirs in _QA_LEAVES.items():
            ours = [f"task_specific/{task}/{m}/{leaf}" for m in QA_MODULES]
            tensors[theirs] = np.concatenate([arrays[name].T for name in ours])
            done.update(ours)
    for name in weights.architecture.shapes():
        if name in done:
            continue
        row = names.to_hugging_face(name)
        array, theirs = arrays[name], row.hugging_face
        if class_name == ENCODER:
            theirs = theirs.removeprefix(_PREFIX)
        tensors[theirs] = array.T if row.is_transposed else array
    return tensors


def _full_names(path: pathlib.Path, tensors: Arrays) -> Arrays:
    """Renames tensors to today's names, with the encoder's prefix."""
    is_bare = not any(name.startswith(_PREFIX) for name in tensors)
    renamed = {}
    for name, array in tensors.items():
        lacks_prefix = is_bare and name.startswith(_ENCODER)
        full = f"{_PREFIX}{name}" if lacks_prefix else name
        full = full.replace("LayerNorm.gamma", "LayerNorm.weight")
        full = full.replace("LayerNorm.beta", "LayerNorm.bias")
        if full in renamed:
            raise _unknown(path, [name])
        renamed[full] = array
    return renamed


def _check_class(path: pathlib.Path, tensors: Arrays, config: Config) -> str:
    """Returns the class of the head that is found, if config names the same."""
    found = [
        class_name
        for class_name, known in CLASSES.items()
        if any(name.startswith(known.tensors) for name in tensors)
    ] or [ENCODER]
    named = config.class_name
    if len(found) > 1 or named not in ("", ENCODER, *found):
        raise UserError(
            f"{path} must hold one network with the head that `architectures` "
            f"names in {config.path}. Received: architectures=[{named}], "
            f"weights of {', '.join(found)}. For an encoder without a head "
            f"set architectures to [{ENCODER}]."
        )
    return found[0]


def _untie(
    path: pathlib.Path, tensors: Arrays, config: Config, class_name: str
) -> None:
    """Drops the generator's output table if it equals the word embeddings."""
    tied = tensors.pop(_TIED, None)
    if class_name != MASKED_LM or (
        tied is None and config.ties_word_embeddings
    ):
        return
    table = tensors.get(_TABLE)
    if tied is None or table is None or not np.array_equal(tied, table):
        received = "another array" if tied is not None else "none"
        raise UserError(
            f"{_TIED} must be left out of {path} or equal {_TABLE}, as "
            f"ELECTRA's generator has one table. Received: {received}, "
            f"tie_word_embeddings={config.ties_word_embeddings}."
        )


def _to_ours(path: pathlib.Path, tensors: Arrays, task: str) -> Arrays:
    """Returns arrays with our names and layout."""
    arrays, unknown = {}, []
    for name, tensor in tensors.items():
        row = names.from_hugging_face(name, task)
        if row is not None:
            array = tensor.T if row.is_transposed else tensor
            arrays[row.name] = np.ascontiguousarray(array)
        elif name in _QA_LEAVES.values():
            arrays |= _to_ours_qa(path, name, tensor, task)
        else:
            unknown.append(name)
    if unknown:
        raise _unknown(path, unknown)
    return arrays


def _to_ours_qa(
    path: pathlib.Path, name: str, tensor: np.ndarray, task: str
) -> Arrays:
    """Splits a tensor into those that score the start and the end."""
    is_kernel = name == _QA_LEAVES["kernel"]
    rank = 2 if is_kernel else 1
    if tensor.ndim != rank or len(tensor) != len(QA_MODULES):
        raise UserError(
            f"{name} must have two rows in {path}, for the start and the end. "
            f"Received: shape {list(tensor.shape)}."
        )
    leaf = "kernel" if is_kernel else "bias"
    parts = tensor[:, :, None] if is_kernel else tensor[:, None]  # [2, H, 1]
    names = (f"task_specific/{task}/{module}/{leaf}" for module in QA_MODULES)
    return dict(zip(names, parts, strict=True))


def _unknown(path: pathlib.Path, names: list[str]) -> UserError:
    return UserError(
        f"{path} must hold the tensors of an ELECTRA network and nothing else. "
        f"Received: {listed(names)}, which have no place in one."
    )
