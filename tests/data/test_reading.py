"""Records open if they fit the run, and damage names its file."""

import dataclasses
import json

import pytest
import tensorflow as tf
from corpora import flip_bit

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.reading import Records, naming_damaged_file
from electra_tf.data.records import MANIFEST, layout, serialize, settings
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain.pretrain_data import training_dataset
from electra_tf.util.errors import UserError

LENGTH = 16
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefgh"))
CONFIG = CorpusConfig(max_seq_length=LENGTH)


def shard(directory, number=0):
    return directory / f"pretrain_data.tfrecord-{number}-of-2"


@pytest.fixture
def data_set(tmp_path):
    """Two files with 5 and 4 records and their manifest."""
    entries = []
    for number, size in enumerate((5, 4)):
        path = shard(tmp_path, number)
        rows = [[([5], [6] * i)] for i in range(size)]
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in serialize(layout(rows, LENGTH, VOCABULARY)):
                writer.write(record)
        num_bytes = path.stat().st_size
        entry = {"name": path.name, "num_records": size, "num_bytes": num_bytes}
        entries.append(entry)
    manifest = settings(CONFIG, VOCABULARY) | {"files": entries}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    return tmp_path


def open_records(directory, config=CONFIG, vocabulary=VOCABULARY):
    pattern = f"{directory}/pretrain_data.tfrecord*"
    return Records.open(pattern, config, vocabulary)


@pytest.mark.parametrize("has_manifest", [True, False])
def test_files_open_with_and_without_a_manifest(data_set, has_manifest):
    if not has_manifest:
        (data_set / MANIFEST).unlink()
    opened = open_records(data_set)
    assert [file.num_records for file in opened.files] == [5, 4]
    paths = [shard(data_set, number) for number in (0, 1)]
    assert [(file.path, file.num_bytes) for file in opened.files] == [
        (str(path), path.stat().st_size) for path in paths
    ]


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damage_names_the_file(data_set, damage):
    path = shard(data_set, 1)
    records = open_records(data_set)
    if damage == "flipped":
        flip_bit(path, -20)
    else:
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match="1-of-2"), naming_damaged_file(records):
        dataset = training_dataset(records, batch_size=9, seed=0)
        next(iter(dataset))


def _unlist(directory):
    path = directory / MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["files"][1]
    path.write_text(json.dumps(manifest))


def _write_lengths(directory, length, token, *more):
    (directory / MANIFEST).unlink(missing_ok=True)
    values = tf.train.Feature(
        int64_list=tf.train.Int64List(value=[token] * length)
    )
    names = ("input_ids", "input_mask", "segment_ids", *more)
    features = tf.train.Features(feature=dict.fromkeys(names, values))
    with tf.io.TFRecordWriter(str(shard(directory, 1))) as writer:
        writer.write(tf.train.Example(features=features).SerializeToString())


@pytest.mark.parametrize(
    "change",
    [
        lambda x: [path.unlink() for path in x.glob("pretrain_data*")],
        lambda x: shard(x, 1).unlink(),
        lambda x: shard(x, 1).write_bytes(shard(x, 1).read_bytes()[:-3]),
        _unlist,
        lambda x: _write_lengths(x, LENGTH + 1, 1),
        lambda x: _write_lengths(x, LENGTH, VOCABULARY.size),
    ],
)
def test_records_that_do_not_fit_are_refused(data_set, change):
    change(data_set)
    errors = (UserError, tf.errors.NotFoundError)
    with pytest.raises(errors, match="pretrain_data.tfrecord"):
        open_records(data_set)


def test_records_in_the_layout_of_bert_are_refused(data_set):
    _write_lengths(data_set, LENGTH, 1)
    open_records(data_set)
    for length in (LENGTH, 2 * LENGTH):
        name = "masked_lm_positions"
        _write_lengths(data_set, length, 1, "masked_lm_weights", name)
        with pytest.raises(UserError, match=rf"1-of-2.*{name}"):
            open_records(data_set)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_seq_length", 32), ("packing", "packed"), ("do_lower_case", False)],
)
def test_a_setting_that_differs_is_named_with_both_values(
    data_set, name, value
):
    config = dataclasses.replace(CONFIG, **{name: value})
    stored = getattr(CONFIG, name)
    with pytest.raises(UserError, match=rf"{name} .*{stored}.*{value}"):
        open_records(data_set, config)
    other = Vocabulary((*SPECIAL_TOKENS, *"abcdefgx"))
    with pytest.raises(UserError, match="vocab_sha256"):
        open_records(data_set, vocabulary=other)
