"""Only the sizes and the frames of the records of a share are read."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from corpora import flip_bit

from electra_tf.data import record_shares
from electra_tf.data.record_shares import ShareReader
from electra_tf.data.records import RecordFile
from electra_tf.util import storage

NUM_RECORDS = (5, 3, 7)
LENGTH = 4


def record(number):
    return bytes([number]) * (3 * number)  # the first is empty


@pytest.fixture
def files(tmp_path):
    """Three files; no two of their records are equal."""
    record_files = []
    for i, count in enumerate(NUM_RECORDS):
        path = tmp_path / f"{i}"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for number in range(count):
                writer.write(record(sum(NUM_RECORDS[:i]) + number))
        size = path.stat().st_size
        record_files.append(RecordFile(str(path), count, size, LENGTH))
    return record_files


def load(reader, files, order):
    """Returns the records that were staged, in order."""
    path, places = reader.stage([f.path for f in files], np.array(order))
    try:
        staged = [x.numpy() for x in tf.data.TFRecordDataset(path)]
    finally:
        storage.remove(path)
    assert not tf.io.gfile.exists(path)
    assert len(staged) == len(order)
    return [staged[place] for place in places]


@pytest.mark.parametrize(
    "order",
    [[0], [14], [14, 0, 7], [4, 5], [3, 9, 1, 8, 2], [*range(14, -1, -1)]],
)
def test_chosen_records_come_in_the_order_they_are_asked_for(files, order):
    reader = ShareReader(files)
    for _ in range(2):  # the second time with the sizes in memory
        assert load(reader, files, order) == [record(i) for i in order]


def test_files_may_come_in_any_order(files):
    found = load(ShareReader(files), files[::-1], [0, 7, 14])
    assert found == [record(i) for i in (8, 5, 4)]


def test_a_share_reads_the_sizes_once_and_then_its_frames_alone(
    files, monkeypatch
):
    counts = []
    pread = record_shares.os.pread

    def counted(descriptor, size, position):
        content = pread(descriptor, size, position)
        counts.append(len(content))
        return content

    monkeypatch.setattr(record_shares.os, "pread", counted)
    reader = ShareReader(files)
    frames = sum(len(record(i)) + 16 for i in (6, 9, 10))
    load(reader, files, [10, 6, 9])
    assert sum(counts) == 8 * (3 + 7) + frames  # nothing of the first file
    counts.clear()
    load(reader, files, [10, 6, 9])
    assert sum(counts) == frames and len(counts) == 2


def test_a_flipped_bit_fails_only_reads_of_its_record(files):
    flip_bit(pathlib.Path(files[2].path), -10)  # of the last record
    assert load(ShareReader(files), files, [13]) == [record(13)]
    with pytest.raises(tf.errors.DataLossError):
        load(ShareReader(files), files, [14])


@pytest.mark.parametrize("byte", [0, 2, 7])
def test_a_file_with_damaged_sizes_is_not_staged(files, byte):
    with open(files[1].path, "r+b") as file:
        file.seek(byte)
        file.write(b"\xf1")
    assert ShareReader(files).stage([files[1].path], np.array([2])) is None


@pytest.mark.parametrize("change", [-1, 1, 20])
def test_a_file_of_another_size_is_not_staged(files, change):
    with open(files[1].path, "ab") as file:
        file.truncate(files[1].num_bytes + change)
    assert ShareReader(files).stage([files[1].path], np.array([2])) is None
