"""A temperature is kept beside its checkpoint, or refused by name."""

import json

import pytest

from electra_tf.checkpoint import calibration
from electra_tf.checkpoint.calibration import Calibration
from electra_tf.util.errors import UserError

FOUND = Calibration(1.5, "errors", 3)


def test_what_is_written_is_read(tmp_path):
    assert calibration.read(tmp_path) is None
    calibration.write(tmp_path, FOUND)
    assert calibration.read(tmp_path) == FOUND


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
def test_what_is_no_temperature_is_refused(tmp_path, change):
    path = tmp_path / calibration.FILE_NAME
    path.write_text(json.dumps(FOUND._asdict() | change))
    with pytest.raises(UserError, match=r"calibration\.json"):
        calibration.read(tmp_path)
