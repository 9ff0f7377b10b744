"""The files of a data set appear when complete, and counts are its own."""

import os
import shutil

import pytest
import tensorflow as tf
from tiny_corpus import VOCABULARY

from electra_tf.data.dataset_files import (
    RecordWriter,
    find_data_set,
    read_unigram_counts,
)
from electra_tf.data.record_format import HELD_OUT, TRAIN
from electra_tf.util.errors import UserError


def read(directory, entries):
    paths = [os.path.join(directory, entry["name"]) for entry in entries]
    return [
        [record.numpy() for record in tf.data.TFRecordDataset(path)]
        for path in paths
    ]


def test_records_go_to_the_files_in_turn(tmp_path):
    with RecordWriter(str(tmp_path), TRAIN, 3) as writer:
        for i in range(7):
            writer.write(b"%d" % i)
        writer.close()
        assert not find_data_set(str(tmp_path))
        entries = writer.publish()
    assert read(tmp_path, entries) == [
        [b"0", b"3", b"6"],
        [b"1", b"4"],
        [b"2", b"5"],
    ]
    assert [entry["num_records"] for entry in entries] == [3, 2, 2]
    assert entries[0]["name"] == "pretrain_data.tfrecord-0-of-3"
    sizes = [(tmp_path / entry["name"]).stat().st_size for entry in entries]
    assert [entry["num_bytes"] for entry in entries] == sizes


@pytest.mark.parametrize("num_records", [0, 2])
def test_no_file_is_left_empty(tmp_path, num_records):
    with RecordWriter(str(tmp_path), HELD_OUT, 5) as writer:
        for _ in range(num_records):
            writer.write(b"x")
        writer.close()
        entries = writer.publish()
    assert len(entries) == len(list(tmp_path.iterdir())) == num_records


def test_counts_of_several_data_sets_add_up(built, tmp_path):
    other = shutil.copytree(built, tmp_path / "other")
    both = read_unigram_counts([str(built), str(other)] * 2, VOCABULARY)
    one = read_unigram_counts([str(built)], VOCABULARY)
    assert both == tuple(2 * n for n in one)
    assert sum(one) > 0


@pytest.mark.parametrize("damage", ["lines", "numbers", "words"])
def test_counts_of_another_data_set_are_refused(built, tmp_path, damage):
    out = shutil.copytree(built, tmp_path / "out")
    path = out / "unigram_counts.txt"
    text = path.read_text()
    other = {
        "lines": text + "0\n",
        "numbers": text[:-2] + "1\n" if text[-2] == "0" else text[:-2] + "0\n",
        "words": text.replace("0\n", "none\n"),
    }
    path.write_text(other[damage])
    with pytest.raises(UserError, match="--overwrite"):
        read_unigram_counts([str(out)], VOCABULARY)
