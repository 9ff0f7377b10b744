import pytest

from electra_tf.util import fingerprints
from electra_tf.util.errors import UserError


def test_fingerprints_that_are_no_json_object_are_named(tmp_path):
    (tmp_path / fingerprints.FILE_NAME).write_text("[1]")
    with pytest.raises(UserError, match=rf"{fingerprints.FILE_NAME} must hold"):
        fingerprints.check(tmp_path, {"x": "y"}, way_out="z", write=True)


def test_inputs_that_a_run_does_not_read_are_not_compared(tmp_path):
    def check_inputs(write=True, **digests):
        fingerprints.check(tmp_path, digests, way_out="leave it", write=write)

    check_inputs(encoder="1", train="2")
    check_inputs(encoder="1", dev="3", write=False)
    check_inputs(encoder="1", dev="4")
    with pytest.raises(UserError, match="inputs: dev, train.*or leave it"):
        check_inputs(encoder="1", train="0", dev="0")
