"""A damaged record is lost, and no other."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.data import recovery
from electra_tf.data.recovery import FaultTolerantReader, recover
from electra_tf.util.errors import UserError

RECORDS = [b"first", b"", b"x" * 130, bytes(range(40)), b"last one"]
ENDS = np.cumsum([len(record) + 16 for record in RECORDS])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in RECORDS:
            writer.write(record)
    return path


def test_an_intact_file_is_read_as_it_is(path, monkeypatch):
    assert recover(str(path)) == RECORDS
    assert recover(str(path), 3) == RECORDS[:3]
    monkeypatch.setattr(recovery, "recover", None)
    assert FaultTolerantReader().read(str(path), 5).numpy().tolist() == RECORDS


@pytest.mark.promise(
    "A flipped bit anywhere in a file of records, with "
    "--skip_corrupt_records: it costs the one record that it is in"
)
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_loses_the_record_it_is_in(path, bit):
    content = path.read_bytes()
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << bit
        path.write_bytes(flipped)
        number = int(np.searchsorted(ENDS, position, side="right"))
        expected = [None if i == number else r for i, r in enumerate(RECORDS)]
        assert recover(str(path)) == expected


def test_a_cut_loses_the_records_behind_it(path):
    content = path.read_bytes()
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        number = int(np.searchsorted(ENDS, size, side="right"))
        is_between = size in {0, *ENDS.tolist()}
        expected = RECORDS[:number] + ([] if is_between else [None])
        assert recover(str(path)) == expected


def test_intact_records_take_the_place_of_damaged_ones(path, capsys):
    content = bytearray(path.read_bytes())
    content[ENDS[1] + 50] ^= 1  # in record 2
    path.write_bytes(content[:-1])
    reader = FaultTolerantReader()
    for _ in range(2):
        read = reader.read(str(path), 5).numpy().tolist()
        assert read[:2] == RECORDS[:2]
        assert read[3] == RECORDS[3]
        assert {read[2], read[4]} <= {*RECORDS[:2], RECORDS[3]}
    assert capsys.readouterr().err.count("2 of 5 records") == 1


def test_intact_records_take_the_place_of_those_after_a_cut(path):
    path.write_bytes(path.read_bytes()[: ENDS[1] + 20])
    read = FaultTolerantReader().read(str(path), 5).numpy().tolist()
    assert read[:2] == RECORDS[:2]
    assert len(read) == 5
    assert {*read[2:]} == {*RECORDS[:2]}, "by turns"


def test_records_after_a_gap_keep_their_places(path):
    content = bytearray(path.read_bytes())
    content[ENDS[0] : ENDS[1] + 12] = bytes(ENDS[1] + 12 - ENDS[0])
    path.write_bytes(content)  # of record 1 all, of record 2 its size
    assert recover(str(path), 5) == [RECORDS[0], None, None, *RECORDS[3:]]
    read = FaultTolerantReader().read(str(path), 5).numpy().tolist()
    assert read[3:] == RECORDS[3:]


def test_gaps_share_the_lost_records_by_their_bytes(path):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(40):
            writer.write(b"%02d" % number * 50)
    content, frame = bytearray(path.read_bytes()), 100 + 16
    for first, last in ((5, 8), (20, 29)):
        content[first * frame : last * frame] = bytes((last - first) * frame)
    path.write_bytes(content)
    lost = {*range(5, 8), *range(20, 29)}
    assert recover(str(path), 40) == [
        None if number in lost else b"%02d" % number * 50
        for number in range(40)
    ]


def test_a_file_without_intact_records_is_named(path):
    path.write_bytes(b"no records at all, and no sizes")
    with pytest.raises(UserError, match=r"a\.tfrecord.*none of 5"):
        FaultTolerantReader().read(str(path), 5)


@pytest.mark.parametrize(
    ("max_records", "found"), [(-1, 3), (3, None), (4, 3), (0, None)]
)
def test_an_impossible_size_is_looked_for_in_the_first_records(
    path, max_records, found
):
    content = path.read_bytes()
    size = recovery._with_checksum((2**40).to_bytes(8, "little"))
    path.write_bytes(content[: ENDS[2]] + size + content[ENDS[2] + 12 :])
    assert recovery.find_impossible_size(str(path), max_records) == found
