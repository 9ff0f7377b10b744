"""The temperature of a discriminator, kept beside its checkpoint.

    P(replaced) = sigmoid(logit / temperature)

It is fitted on text whose answers are known, by `analyze --what=calibration`.
"""

import math
import warnings
from typing import Any, NamedTuple

from electra_tf.util import files, storage
from electra_tf.util.errors import ElectraWarning, UserError

FILE_NAME = "calibration.json"


class Calibration(NamedTuple):
    """A fitted temperature.

    Attributes:
      temperature: over 0; 1 changes nothing.
      fitted_on: what it was fitted on, for people.
      step: updates of the checkpoint that it is of.
    """

    temperature: float
    fitted_on: str
    step: int


def read(directory: storage.Path) -> Calibration | None:
    """Reads the calibration in a directory, None if there is none.

    Raises:
      UserError: if the file is damaged.
    """
    path = directory / FILE_NAME
    if not storage.exists(path):
        return None
    content: dict[str, Any] = files.read_json(path)
    with files.shape_of(path):
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


def of_checkpoint(path: str, step: int) -> Calibration | None:
    """Reads the calibration beside a checkpoint, None if there is none.

    That of another step is not used, with a warning.

    Args:
      path: of a checkpoint or of its directory; of several the first counts.
      step: updates of the checkpoint.

    Raises:
      UserError: if the file is damaged.
    """
    directory = directory_of(path)
    found = read(directory)
    if found is not None and found.step != step:
        warnings.warn(
            f"The temperature in {directory / FILE_NAME} is of step "
            f"{found.step:,}, not of {step:,}, and is not applied. Fit it "
            "again: python -m electra_tf.analyze --what=calibration",
            ElectraWarning,
            stacklevel=4,
        )
        return None
    return found


def directory_of(path: str) -> storage.Path:
    """Returns the directory of a bundle, or one of Hugging Face's itself.

    Args:
      path: of a checkpoint or of its directory; of several the first counts.
    """
    first = storage.as_path(path.partition(",")[0])
    return first if storage.is_directory(first) else first.parent


def write(directory: storage.Path, calibration: Calibration) -> None:
    """Writes the calibration into a directory."""
    files.write_json(directory / FILE_NAME, calibration._asdict())
