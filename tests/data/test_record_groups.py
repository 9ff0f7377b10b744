"""Groups come in the order they are asked for, and leave nothing behind."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.data import record_groups
from electra_tf.data.record_groups import Group
from electra_tf.data.records import RecordFile, Records


@pytest.fixture
def records(tmp_path):
    """Two files with the records 0 to 2 and 3 to 5."""
    record_files = []
    for first in (0, 3):
        path = tmp_path / str(first)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for number in range(first, first + 3):
                writer.write(b"%d" % number)
        size = path.stat().st_size
        record_files.append(RecordFile(str(path), 3, size, 4))
    return Records(tuple(record_files))


@pytest.mark.parametrize("by_share", [False, True])
def test_groups_are_loaded_in_order_and_staged_records_removed(
    records, by_share
):
    first, second = (file.path for file in records.files)
    groups = [
        Group([second, first], np.array([5, 0, 2])),
        Group([first], np.array([1])),
    ]
    dataset = record_groups.load(
        lambda: iter(groups), records, by_share=by_share
    )
    found = [group.tolist() for group in dataset.as_numpy_iterator()]
    assert found == [[b"2", b"3", b"5"], [b"1"]]
    assert not tf.io.gfile.glob("ram://*-*-*-*-*")
