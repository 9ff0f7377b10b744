"""Files appear when they are complete; counts must match their data set."""

import os
import shutil

import pytest
import tensorflow as tf
from tiny_corpus import VOCABULARY

from electra_tf.data.dataset_files import (
    RecordWriter,
    are_half_published,
    begin_publishing,
    check_same_build,
    find_data_set,
    read_unigram_counts,
)
from electra_tf.data.record_format import TRAIN, RecordKind
from electra_tf.util import files
from electra_tf.util.errors import UserError


def read(directory, entries):
    paths = [os.path.join(directory, entry["name"]) for entry in entries]
    return [
        [record.numpy().decode() for record in tf.data.TFRecordDataset(path)]
        for path in paths
    ]


@pytest.mark.parametrize(
    ("num_records", "expected"),
    [
        (0, []),  # no file is left empty
        (2, [["0"], ["1"]]),
        (7, [["0", "3", "6"], ["1", "4"], ["2", "5"]]),
    ],
)
def test_records_go_to_the_files_in_turn(tmp_path, num_records, expected):
    with RecordWriter(str(tmp_path), RecordKind(8, TRAIN, 8), 3) as writer:
        for i in range(num_records):
            writer.write(b"%d" % i)
        writer.close()
        assert not find_data_set(str(tmp_path))
        entries = writer.publish()
    assert read(tmp_path, entries) == expected
    assert [entry["num_records"] for entry in entries] == [*map(len, expected)]
    assert [entry["name"] for entry in entries] == [
        f"pretrain_data.tfrecord-{i}-of-{len(expected)}"
        for i in range(len(expected))
    ]
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {
        entry["name"]: entry["num_bytes"] for entry in entries
    }


def test_a_data_set_is_half_published_until_it_has_a_manifest(tmp_path):
    outputs = [str(tmp_path / name) for name in ("a", "b")]
    assert not are_half_published(outputs)
    begin_publishing(outputs)
    for output in outputs:
        assert are_half_published(outputs)
        files.write_json(f"{output}/manifest.json", {})
    assert not are_half_published(outputs)


def test_unigram_counts_of_several_data_sets_add_up(built, tmp_path):
    other = shutil.copytree(built, tmp_path / "other")
    both = read_unigram_counts([str(built), str(other)] * 2, VOCABULARY)
    one = read_unigram_counts([str(built)], VOCABULARY)
    assert both == tuple(2 * n for n in one)
    assert sum(one) > 0


@pytest.mark.parametrize(
    "damage", ["lines", "numbers", "words", "digits", "bytes"]
)
def test_unigram_counts_that_do_not_match_the_data_set_are_refused(
    built, tmp_path, damage
):
    out = shutil.copytree(built, tmp_path / "out")
    path = out / "unigram_counts.txt"
    text = path.read_text()
    other = {
        "lines": text + "0\n",
        "numbers": text[:-2] + "1\n" if text[-2] == "0" else text[:-2] + "0\n",
        "words": text.replace("0\n", "none\n"),
        "digits": text + "9" * 5000,
        "bytes": text + "\udcff",
    }
    path.write_text(other[damage], errors="surrogateescape")
    with pytest.raises(UserError, match="--overwrite"):
        read_unigram_counts([str(out)], VOCABULARY)


def test_data_sets_are_compared_with_those_of_their_own_name(tmp_path):
    """Whose order may differ: x10_16 < x1_16, but x1 < x10."""
    names = ("x1", "x10", "x_32")
    sets = {
        length: [f"{tmp_path}/{name}{ending}" for name in names]
        for length, ending in ((16, "_16"), (32, ""))
    }
    for each in sets.values():
        for directory, corpus in zip(each, names, strict=True):
            os.mkdir(directory)
            files.write_json(f"{directory}/manifest.json", {"corpus": corpus})
    check_same_build(sets)
    files.write_json(f"{sets[16][1]}/manifest.json", {"corpus": "x1"})
    with pytest.raises(UserError, match="x10_16 .*corpus is x1 and x10"):
        check_same_build(sets)
