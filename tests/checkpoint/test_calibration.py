"""The calibration file of a checkpoint is read as written, or refused."""

import numpy as np
import pytest

from electra_tf.checkpoint import bundles, calibration
from electra_tf.checkpoint.calibration import Calibration

CALIBRATION = Calibration(1.5, "errors", 3)


def test_a_calibration_is_read_as_written(tmp_path):
    assert calibration.read(tmp_path) is None
    calibration.write(tmp_path, CALIBRATION)
    assert calibration.read(tmp_path) == CALIBRATION


@pytest.mark.parametrize("name", ["", "model.ckpt-3"])
def test_a_comma_in_a_path_does_not_move_the_calibration(tmp_path, name):
    directory = tmp_path / "de,en"
    directory.mkdir()
    bundles.write(directory / "model.ckpt-3", {"step": np.array(3)})
    assert calibration.directory_of(str(directory / name)) == directory
    several = f"{tmp_path},{directory}"
    assert calibration.directory_of(several) == tmp_path
