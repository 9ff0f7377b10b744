"""The calibration file of a checkpoint is read as written, or refused."""

import json

import pytest

from electra_tf.checkpoint import calibration
from electra_tf.checkpoint.calibration import Calibration
from electra_tf.util.errors import UserError

CALIBRATION = Calibration(1.5, "errors", 3)


def test_a_calibration_is_read_as_written(tmp_path):
    assert calibration.read(tmp_path) is None
    calibration.write(tmp_path, CALIBRATION)
    assert calibration.read(tmp_path) == CALIBRATION


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0},
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"temperature": "high"},
        {"temperature": None},
        {"step": float("inf")},
    ],
)
def test_an_invalid_calibration_is_refused(tmp_path, change):
    path = tmp_path / calibration.FILE_NAME
    path.write_text(json.dumps(CALIBRATION._asdict() | change))
    with pytest.raises(UserError, match=r"calibration\.json"):
        calibration.read(tmp_path)
