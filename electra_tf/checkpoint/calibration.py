"""P(replaced) of logits, and the temperature kept beside a checkpoint.

    P(replaced) = sigmoid(logit / temperature)

`analyze --what=calibration` fits the temperature on labelled text.
"""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from electra_tf.checkpoint import bundles
from electra_tf.util import files, storage
from electra_tf.util.errors import ElectraWarning, UserError

FILE_NAME = "calibration.json"


class Calibration(NamedTuple):
    """A fitted temperature."""

    temperature: float
    fitted_on: str
    step: int


def probability(logits: np.ndarray) -> np.ndarray:
    """Computes the sigmoid of logits, without overflow."""
    return np.exp(-np.logaddexp(0.0, -logits))


def read(directory: storage.Path) -> Calibration | None:
    """Reads the calibration in a directory, None if there is none."""
    path = directory / FILE_NAME
    if not storage.exists(path):
        return None
    content: dict[str, Any] = files.read_json(path)
    with files.naming_malformed_file(path):
        calibration = Calibration(
            temperature=float(content["temperature"]),
            fitted_on=str(content["fitted_on"]),
            step=int(content["step"]),
        )
    if not 0 < calibration.temperature < math.inf:
        raise UserError(
            "`temperature` must be positive and finite in "
            f"{path}. Received: {calibration.temperature}. Fit it again: "
            "python -m electra_tf.analyze --what=calibration."
        )
    return calibration


def read_for_checkpoint(path: str, step: int) -> Calibration | None:
    """Reads the calibration beside a checkpoint, None if there is none."""
    directory = directory_of(path)
    found = read(directory)
    if found is not None and found.step != step:
        warnings.warn(
            f"The temperature in {directory / FILE_NAME} was fitted at step "
            f"{found.step:,}, not at {step:,}, and is not applied. Fit it "
            "again: python -m electra_tf.analyze --what=calibration",
            ElectraWarning,
            stacklevel=4,
        )
        return None
    return found


def directory_of(path: str) -> storage.Path:
    """Returns the directory of a checkpoint; a directory is returned itself."""
    first = storage.as_path(bundles.split_paths(path)[0])
    return first if storage.is_directory(first) else first.parent


def write(directory: storage.Path, calibration: Calibration) -> None:
    """Writes the calibration into a directory."""
    files.write_json(directory / FILE_NAME, calibration._asdict())
