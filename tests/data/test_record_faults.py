"""Records that change while a run reads them are named, never trained on."""

import os

import pytest
import tensorflow as tf

from electra_tf.data import record_faults
from electra_tf.data.records import RecordFile, Records
from electra_tf.pretrain.pretrain_data import training_dataset
from electra_tf.util import storage
from electra_tf.util.errors import UserError
from tests.pretrain.test_pretrain_data import LENGTH, make_record


def _write(path, numbers):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in numbers:
            writer.write(make_record(number))
    version = tuple(storage.version(str(path)))
    return RecordFile(str(path), len(numbers), version[0], LENGTH, version)


@pytest.fixture
def records(tmp_path):
    """Two files of three records, each a group of its own."""
    return Records(
        (
            _write(tmp_path / "a", [1, 2, 3]),
            _write(tmp_path / "b", [4, 5, 6]),
        )
    )


def _remove(path):
    path.unlink()


def _move(path):
    path.rename(f"{path}-moved")


def _swap(path):
    _write(f"{path}-new", [7, 8, 9])
    os.utime(f"{path}-new", ns=(0, 0))
    os.replace(f"{path}-new", path)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (_remove, "no such file"),
        (_move, "no such file"),
        (_swap, "written meanwhile"),
        (_cut, "written meanwhile"),
    ],
)
def test_a_file_that_changes_while_it_is_read_is_named(
    records, tmp_path, change, received
):
    rows = iter(
        training_dataset(records, batch_size=1, seed=0, shuffle_megabytes=0)
    )
    with pytest.raises(UserError, match=f"/b must stay .*{received}. Put"):
        with record_faults.named({LENGTH: records}):
            next(rows)
            change(tmp_path / "b")
            for _ in range(60):  # more than any buffer holds
                assert next(rows).input_ids[0, 0] <= 6


def test_a_file_that_is_gone_before_the_first_update_is_named(
    records, tmp_path
):
    _remove(tmp_path / "b")
    with pytest.raises(UserError, match="/b must stay"):
        with record_faults.named({LENGTH: records}):
            pass


def test_damage_is_located_and_other_errors_pass(records, tmp_path):
    path = tmp_path / "b"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(0, records.files[1].version[1]))  # bits that rot
    with pytest.raises(UserError, match="b: record 1 cannot be read"):
        with record_faults.named({LENGTH: records}):
            raise tf.errors.DataLossError(None, None, "corrupted record")
    with pytest.raises(tf.errors.UnavailableError):
        with record_faults.named({LENGTH: records}):
            raise tf.errors.UnavailableError(None, None, "a worker is gone")
