"""Data sets of several lengths come from one pass over the text."""

import dataclasses
import json
import os
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tiny_corpus import (
    DOCUMENTS,
    LENGTH,
    VOCABULARY,
    Killed,
    build,
    contents,
    kill_at_publication,
    rows_of,
)

from electra_tf.data import merge, packing
from electra_tf.data.reading import Records
from electra_tf.data.record_format import parse
from electra_tf.util import machine
from electra_tf.util.errors import UserError


@pytest.fixture(scope="module")
def bucketed_config(config):
    return dataclasses.replace(
        config, length_buckets=(8, 16, LENGTH), num_shards=6
    )


@pytest.fixture(scope="module")
def bucketed(bucketed_config, tmp_path_factory):
    directory = tmp_path_factory.mktemp("bucketed")
    build(bucketed_config, directory)
    return directory


def test_large_corpora_get_several_files(config, tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "FILE_BYTES", 500)
    manifest = build(config, tmp_path / "out")
    train = [f for f in manifest["files"] if f["split"] == "train"]
    sizes = [file["num_bytes"] for file in train]
    assert len(train) > 2
    assert max(sizes) < 20_000
    counts = [file["num_records"] for file in train]
    assert max(counts) - min(counts) <= 1
    num_held_out = len(manifest["files"]) - len(train)
    assert num_held_out == round(config.held_out_fraction * len(train)) > 1


def test_all_files_of_a_data_set_may_be_open_at_once(config, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    num_open = len(os.listdir("/dev/fd"))
    config = dataclasses.replace(config, num_shards=num_open + 100)
    try:
        few = num_open + 20
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, limits[1]))
        manifest = build(config, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(manifest["files"]) > few


def test_more_files_than_may_be_open_are_refused_at_the_start(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(machine, "allow_open_files", lambda _: 300)
    config = dataclasses.replace(config, num_shards=215)
    with pytest.raises(UserError, match="must be at most 214, .* 300 files"):
        build(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    merge.allow_open_files(dataclasses.replace(config, num_shards=214))


@pytest.fixture
def num_tokenized(monkeypatch):
    """Counts the documents that are tokenized."""
    counts, tokenize = [], packing._tokenize

    def counting(documents, *args):
        for tokenized in tokenize(documents, *args):
            counts.append(1)
            yield tokenized

    monkeypatch.setattr(packing, "_tokenize", counting)
    return counts


def test_one_pass_over_the_text_equals_a_build_of_each_length(
    config, built, num_tokenized, tmp_path
):
    phases = dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")
    manifest = build(phases, f"{tmp_path}/both/")
    assert sum(num_tokenized) == len(DOCUMENTS)
    assert manifest["max_seq_length"] == LENGTH
    short = dataclasses.replace(config, max_seq_length=16)
    build(short, tmp_path / "short")
    assert contents(tmp_path / "both") == contents(built)
    assert contents(tmp_path / "both_16") == contents(tmp_path / "short")


def test_all_data_sets_are_published_or_none(config, tmp_path, monkeypatch):
    publish = merge.RecordWriter.publish

    def fail(writer):
        if writer._directory.endswith("out"):
            raise OSError("the disk is gone")
        return publish(writer)

    phases = dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")
    with monkeypatch.context() as patch:
        patch.setattr(merge.RecordWriter, "publish", fail)
        with pytest.raises(UserError, match="the same command to resume"):
            build(phases, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".parts"]
    assert not list((tmp_path / "out_16").iterdir())
    build(phases, tmp_path / "out")
    for name in ("out", "out_16"):
        assert (tmp_path / name / "manifest.json").exists()


def build_killed(config, directory, number, **kwargs):
    with pytest.MonkeyPatch.context() as patch:
        kill_at_publication(patch, number)
        with pytest.raises(Killed):
            build(config, directory, **kwargs)


@pytest.fixture(scope="module")
def phases(config):
    return dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")


@pytest.fixture(scope="module")
def built_phases(phases, tmp_path_factory):
    directory = tmp_path_factory.mktemp("phases")
    build(phases, directory / "out")
    return directory


@pytest.mark.promise(
    "Kill -9 of a build while its files get their final names: the same "
    "command goes on to the same bytes"
)
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(
    "overwrite", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_a_build_that_was_killed_while_it_published_continues(
    phases, built_phases, tmp_path, number, overwrite
):
    if overwrite:
        shutil.copytree(built_phases, tmp_path, dirs_exist_ok=True)
    build_killed(phases, tmp_path / "out", number, overwrite=overwrite)
    build(phases, tmp_path / "out")
    for name in ("out", "out_16"):
        assert contents(tmp_path / name) == contents(built_phases / name)


def test_files_of_others_outlive_a_build_that_was_killed(
    config, built, tmp_path, monkeypatch
):
    out = shutil.copytree(built, tmp_path / "out")
    (out / "manifest.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(merge, "_publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(config, out, overwrite=True)
    with pytest.raises(UserError, match="--overwrite"):
        build(config, out)
    shutil.rmtree(out / ".parts")
    expected = contents(built)
    del expected["manifest.json"]
    assert contents(out) == expected


def test_a_data_set_beside_a_half_published_one_is_kept(
    config, phases, built, tmp_path
):
    out = tmp_path / "out"
    build_killed(phases, out, 0)
    build(config, out)
    with pytest.raises(UserError, match="--overwrite"):
        build(phases, out)
    assert contents(out) == contents(built)


def test_a_training_record_has_the_shortest_length_that_holds_it(
    built, bucketed, bucketed_config
):
    train = Records.open(f"{bucketed}/pretrain*", bucketed_config, VOCABULARY)
    assert len(train.files) == bucketed_config.num_shards
    assert train.max_seq_length == LENGTH
    buckets = train.buckets
    assert [bucket.max_seq_length for bucket in buckets] == [8, 16, LENGTH]
    rows, num_slots = [], 0
    for shorter, bucket in zip((0, 8, 16), buckets, strict=True):
        length = bucket.max_seq_length
        bucket_rows = rows_of([file.path for file in bucket.files], length)
        assert bucket.num_records == len(bucket_rows)
        sizes = [len(row) for row in bucket_rows]
        assert shorter < min(sizes) and max(sizes) <= length
        rows += bucket_rows
        num_slots += length * len(bucket_rows)
    assert sorted(rows) == sorted(rows_of(built.glob("pretrain_data*")))
    held_out = [path.name for path in bucketed.glob("held_out_data*")]
    assert held_out == ["held_out_data.tfrecord-0-of-1"]
    assert contents(bucketed)[held_out[0]] == contents(built)[held_out[0]]
    rows += (held_out_rows := rows_of([bucketed / held_out[0]]))
    num_slots += LENGTH * len(held_out_rows)
    counts = json.loads((bucketed / "manifest.json").read_text())["counts"]
    share = 1 - sum(map(len, rows)) / num_slots
    assert counts["padding_share"] == pytest.approx(share, abs=1e-6)
    assert share < 0.3


def test_records_of_other_buckets_are_refused(
    config, built, bucketed, bucketed_config, tmp_path
):
    with pytest.raises(UserError, match=r"length_buckets is \[8, 16\] in the"):
        Records.open(f"{bucketed}/pretrain*", config, VOCABULARY)
    with pytest.raises(UserError, match=r"length_buckets is \[\] in the"):
        Records.open(f"{built}/pretrain*", bucketed_config, VOCABULARY)
    bare = tmp_path / "pretrain_data.tfrecord-0-of-1"
    bare.write_bytes((built / bare.name).read_bytes())
    assert Records.open(str(bare), config, VOCABULARY).num_records
    with pytest.raises(UserError, match="drop --length_buckets"):
        Records.open(str(bare), bucketed_config, VOCABULARY)


def test_segments_and_masks_are_cut_with_the_ids(bucketed):
    path = next(bucketed.glob("*tfrecord-16-tokens-0-of-*"))
    features = parse(tf.stack(list(tf.data.TFRecordDataset(str(path)))), 16)
    ids, mask, segments = (features[n].numpy() for n in features)
    np.testing.assert_array_equal(ids > 0, mask > 0)
    assert segments.any() and (segments <= mask).all()
