"""Fingerprints of the encoder and the data that a trial learns from.

They lie in `inputs.json` in its directory, so that a trial never goes on with
another encoder or other data.
"""

import hashlib
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.weights import Weights
from electra_tf.finetune.examples import Example
from electra_tf.util import files
from electra_tf.util.errors import UserError

FILE_NAME = "inputs.json"

Digests = Mapping[str, str]
"""Name of the encoder or split -> its SHA-256."""


def of_encoder(weights: Weights) -> str:
    """Returns the digest of an encoder and of what makes its input.

    Args:
      weights: as `pretrained.read` returns them.
    """
    digest = hashlib.sha256()
    for name, array in sorted(weights.arrays.items()):
        if name == STEP:
            continue
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    switches = (weights.do_lower_case, weights.strip_accents)
    digest.update(f"{weights.vocabulary.sha256} {switches}".encode())
    return digest.hexdigest()


def of_examples(examples: Iterable[Example]) -> str:
    """Returns the digest of the examples of a split, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example!r}\n".encode())
    return digest.hexdigest()


def check(
    directory: pathlib.Path, digests: Digests, *, way_out: str, write: bool
) -> None:
    """Compares digests with those of a trial's start, and adds new ones.

    Args:
      directory: of the trial.
      digests: of all that this run reads; a run without training or without
        evaluation reads less.
      way_out: what may be done beside removing the directory.
      write: whether to add.

    Raises:
      UserError: naming what has changed.
    """
    path = directory / FILE_NAME
    there = files.read_object(path) if path.exists() else {}
    changed = [
        name
        for name in there.keys() & digests.keys()
        if there[name] != digests[name]
    ]
    if changed:
        raise UserError(
            f"{directory} must go on with what it began with. Received: "
            f"another content of {', '.join(sorted(changed))}. Restore it, "
            f"remove the directory to start again, or {way_out}."
        )
    if write and digests.keys() - there.keys():
        files.write_json(path, {**there, **digests})
