"""Nothing trains on files that are missing, damaged or of another run."""

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.configure_pretraining import CorpusConfig
from electra_tf.data import records
from electra_tf.data.record_format import (
    FORMAT_VERSION,
    MANIFEST,
    TRAIN,
    ShardWriter,
    layout,
    serialize,
)
from electra_tf.data.records import Records, locate_damage
from electra_tf.data.spans import Span
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

LENGTH = 16
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = Vocabulary(SPECIAL + tuple("abcdefgh"))
CONFIG = CorpusConfig(max_seq_length=LENGTH)


@pytest.fixture
def data_set(tmp_path):
    """Two files with 5 and 4 records and their manifest."""
    with ShardWriter(str(tmp_path), TRAIN, 2) as writer:
        for i in range(9):
            ids, span = np.array([5, 6] + [7] * i), Span(0, 2, 2 + i)
            rows = layout(ids, [[span]], LENGTH, VOCABULARY)
            writer.write(serialize(rows)[0])
        writer.close()
        entries = writer.publish()
    manifest = {
        "format_version": FORMAT_VERSION,
        "vocab_sha256": VOCABULARY.sha256,
        "vocab_size": VOCABULARY.size,
        "do_lower_case": True,
        "strip_accents": True,
        "max_seq_length": LENGTH,
        "packing": "carry",
        "files": entries,
    }
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    return tmp_path


@pytest.mark.parametrize(
    "listed", [None, 3, [1], [{}], [{"name": 3, "num_records": 1}], ["x"]]
)
def test_a_manifest_of_another_shape_is_named(data_set, listed):
    path = data_set / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "files": listed}))
    with pytest.raises(
        UserError, match=r"manifest\.json must be as electra_tf"
    ):
        open_records(data_set)
    path.write_text("[]")
    with pytest.raises(UserError, match=r"manifest\.json must hold a JSON obj"):
        open_records(data_set)


def open_records(directory, config=CONFIG, vocabulary=VOCABULARY, **kwargs):
    pattern = os.path.join(directory, "pretrain_data.tfrecord*")
    return Records.open(pattern, config, vocabulary, **kwargs)


def shard(directory, number=0):
    return directory / f"pretrain_data.tfrecord-{number}-of-2"


def write_records(path, *rows):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for features in rows:
            message = tf.train.Example()
            for name, values in features.items():
                kind = message.features.feature[name]
                kind.int64_list.value.extend(values)
            writer.write(message.SerializeToString())


def row(**features):
    zeros = [0] * LENGTH
    wanted = {"input_ids": zeros, "input_mask": zeros, "segment_ids": zeros}
    return wanted | features


@pytest.mark.parametrize("has_manifest", [True, False])
def test_sound_files_open_with_and_without_a_manifest(data_set, has_manifest):
    if not has_manifest:
        (data_set / MANIFEST).unlink()
    opened = open_records(data_set)
    assert [file.num_records for file in opened.files] == [5, 4]
    assert opened.num_records == 9
    assert opened.files[0].path == str(shard(data_set))
    assert opened.files[0].num_bytes == shard(data_set).stat().st_size


def test_large_files_are_trusted_to_the_manifest(data_set, monkeypatch):
    content = bytearray(shard(data_set).read_bytes())
    content[-20] ^= 1  # in the last record
    shard(data_set).write_bytes(content)
    monkeypatch.setattr(records, "MAX_BYTES_TO_SCAN", 100)
    assert open_records(data_set).num_records == 9


def test_several_patterns_give_each_file_once(data_set):
    path = str(shard(data_set))
    again = f"{data_set}//./*-0-of-2"
    opened = Records.open(f"{path}, {again}", CONFIG, VOCABULARY)
    assert [file.path for file in opened.files] == [path]


def test_a_pattern_without_files_is_named(tmp_path):
    with pytest.raises(UserError, match=r"pretrain_data\.tfrecord\*"):
        open_records(tmp_path)


def test_a_file_without_records_is_named(data_set):
    (data_set / MANIFEST).unlink()
    shard(data_set, 1).write_bytes(b"")
    with pytest.raises(UserError, match="1-of-2 must hold records.*0 bytes"):
        open_records(data_set)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "junk"])
def test_damage_names_file_and_record(data_set, damage):
    (data_set / MANIFEST).unlink()
    content = bytearray(shard(data_set, 1).read_bytes())
    number = 3
    if damage == "truncated":
        content = content[:-3]
    elif damage == "flipped":
        content[-20] ^= 1
    else:
        content, number = os.urandom(500), 0
    shard(data_set, 1).write_bytes(content)
    with pytest.raises(UserError, match=f"1-of-2: record {number} cannot"):
        open_records(data_set)
    paths = [str(shard(data_set)), str(shard(data_set, 1))]
    assert f"1-of-2: record {number} cannot be read" in locate_damage(paths)
    assert "{{" not in locate_damage(paths)


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("has_manifest", [True, False])
@pytest.mark.parametrize("damage", ["truncated", "whole", "first", "last"])
def test_damaged_files_open_where_damage_is_left_out(
    data_set, monkeypatch, has_manifest, damage, is_large
):
    if not has_manifest:
        (data_set / MANIFEST).unlink()
    if is_large:
        monkeypatch.setattr(records, "MAX_BYTES_TO_SCAN", 100)
    content = bytearray(shard(data_set, 1).read_bytes())
    if damage == "truncated":
        content = content[:-3]
    elif damage == "whole":  # records are gone, and no part of one is left
        content = content[: len(content) // 4]
    else:
        content[20 if damage == "first" else -20] ^= 1
    shard(data_set, 1).write_bytes(content)
    opened = open_records(data_set, skip_corrupt_records=True)
    expected = 1 if damage == "whole" and not has_manifest else 4
    assert [file.num_records for file in opened.files] == [5, expected]
    for bucket in opened.buckets:
        assert bucket.sound is opened.sound
    if not is_large and (has_manifest or damage != "whole"):
        with pytest.raises(UserError):
            open_records(data_set)


def test_a_file_without_a_sound_record_is_never_left_out(data_set):
    shard(data_set, 1).write_bytes(os.urandom(500))
    with pytest.raises(UserError, match="1-of-2 must hold a record.*of 4"):
        open_records(data_set, skip_corrupt_records=True)


def test_wrong_values_are_no_damage_that_is_left_out(data_set):
    (data_set / MANIFEST).unlink()
    write_records(shard(data_set, 1), row(input_ids=[99] * LENGTH), row())
    content = shard(data_set, 1).read_bytes()
    for whole in (content, content[:-3]):
        shard(data_set, 1).write_bytes(whole)
        with pytest.raises(UserError, match="Received: 99 at position 0"):
            open_records(data_set, skip_corrupt_records=True)


def test_locate_damage_says_when_there_is_none(data_set):
    assert "can be read" in locate_damage([str(shard(data_set))])


def test_a_file_that_shrank_is_named(data_set):
    write_records(shard(data_set, 1), row())
    with pytest.raises(UserError, match=r"1-of-2 must have the \d+ bytes"):
        open_records(data_set)


def test_a_file_that_is_gone_is_named(data_set):
    shard(data_set, 1).unlink()
    with pytest.raises(UserError, match="1-of-2 must have.*no such file"):
        open_records(data_set)


def test_a_file_that_is_not_listed_is_named(data_set):
    (data_set / "pretrain_data.tfrecord-old").write_bytes(b"x")
    with pytest.raises(UserError, match="tfrecord-old must belong"):
        open_records(data_set)


def test_a_wrong_count_in_the_manifest_is_found(data_set):
    manifest = json.loads((data_set / MANIFEST).read_text())
    manifest["files"][1]["num_records"] = 5
    (data_set / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="1-of-2 must have the 5 records"):
        open_records(data_set)


def test_what_a_killed_build_left_is_not_a_data_set(data_set):
    (data_set / MANIFEST).unlink()
    (data_set / ".pretrain_data.tfrecord-2.tmp").write_bytes(b"x")
    with pytest.raises(UserError, match="was stopped"):
        open_records(data_set)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_seq_length", 32),
        ("packing", "packed"),
        ("do_lower_case", False),
        ("strip_accents", False),
    ],
)
def test_a_setting_that_differs_is_named_with_both_values(
    data_set, name, value
):
    config = dataclasses.replace(CONFIG, **{name: value})
    there = getattr(CONFIG, name)
    message = f"{name} is {there} there and {value} here"
    with pytest.raises(UserError, match=message):
        open_records(data_set, config)


def test_another_vocabulary_is_refused(data_set):
    vocabulary = Vocabulary(SPECIAL + tuple("hgfedcba"))
    with pytest.raises(UserError, match="vocab_sha256 is .* there and"):
        open_records(data_set, vocabulary=vocabulary)


def test_another_format_is_refused(data_set):
    (data_set / MANIFEST).write_text('{"format_version": 99}')
    with pytest.raises(UserError, match="Received: 99"):
        open_records(data_set)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(input_ids=[0] * 99), "16 integers `input_ids`.*Received: 99"),
        ({"input_ids": [0] * LENGTH}, "`input_mask`.*Received: 0"),
        (row(input_ids=[VOCABULARY.size] * LENGTH), "below 13. Received: 13"),
        (row(input_ids=[-1] * LENGTH), "Received: -1 at position 0"),
        (row(segment_ids=[0] * 15 + [2]), "segment_ids.*2 at position 15"),
        (row(input_mask=[1] * 9 + [2] * 7), "input_mask.*2 at.*--packing"),
    ],
)
def test_a_record_that_does_not_fit_is_named(data_set, bad, message):
    (data_set / MANIFEST).unlink()
    write_records(shard(data_set, 1), row(), row(), bad, row())
    with pytest.raises(UserError, match=f"1-of-2: record 2.*{message}"):
        open_records(data_set)


def test_records_of_several_documents_open_for_packed_rows_only(data_set):
    (data_set / MANIFEST).unlink()
    config = dataclasses.replace(CONFIG, packing="packed")
    write_records(shard(data_set), row(input_mask=[1] * 9 + [127] * 7))
    assert open_records(data_set, config).num_records == 5
    write_records(shard(data_set), row(input_mask=[1] * 9 + [128] * 7))
    with pytest.raises(UserError, match="below 128. Received: 128"):
        open_records(data_set, config)


def test_a_record_that_is_no_example_is_named(data_set):
    (data_set / MANIFEST).unlink()
    with tf.io.TFRecordWriter(str(shard(data_set, 1))) as writer:
        writer.write(b"\xff\xff")
    with pytest.raises(UserError, match="1-of-2: record 0.*tf.train.Example"):
        open_records(data_set)
