"""P(replaced) of logits, and the temperature kept beside a checkpoint.

    P(replaced) = sigmoid(logit / temperature)

`analyze --what=calibration` fits the temperature on labelled text.
"""

import os
import warnings
from typing import NamedTuple

import numpy as np
from etils import epath

from electra_tf.checkpoint import bundles
from electra_tf.util import files
from electra_tf.util.errors import ElectraWarning

FILE_NAME = "calibration.json"


class Calibration(NamedTuple):
    """A fitted temperature."""

    temperature: float
    fitted_on: str
    step: int


def probability(logits: np.ndarray) -> np.ndarray:
    """Computes the sigmoid of logits, without overflow."""
    return np.exp(-np.logaddexp(0.0, -logits))


def read_for_checkpoint(path: str, step: int) -> Calibration | None:
    """Reads the calibration beside a checkpoint, None if there is none."""
    file = directory_of(path) / FILE_NAME
    if not file.exists():
        return None
    calibration = Calibration(**files.read_json(file))
    if calibration.step == step:
        return calibration
    warnings.warn(
        f"The temperature beside {path} was fitted at step "
        f"{calibration.step:,}, not at {step:,}, and is not applied.",
        ElectraWarning,
        stacklevel=4,
    )
    return None


def directory_of(path: str) -> epath.Path:
    """Returns the directory of a checkpoint; a directory is returned itself."""
    first = epath.Path(bundles.split_paths(path)[0])
    return first if first.is_dir() else first.parent


def write(directory: str | os.PathLike[str], calibration: Calibration) -> None:
    """Writes the calibration into a directory."""
    path = epath.Path(directory) / FILE_NAME
    files.write_json(path, calibration._asdict())
