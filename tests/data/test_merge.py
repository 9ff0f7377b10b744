"""Data sets of several lengths come from one pass over the text."""

import dataclasses
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import merge, packing
from electra_tf.data.dataset_builder import build
from electra_tf.data.record_format import ShardWriter, parse
from electra_tf.data.records import Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

LENGTH = 32
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [f"w{i}" for i in range(100)]
VOCABULARY = Vocabulary((*SPECIAL, *WORDS))
NUM_DOCUMENTS = 60


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Documents of 4 to 80 words, on lines of 4."""
    rng = random.Random(0)
    documents = [
        "\n".join(
            " ".join(rng.choices(WORDS, k=4)) for _ in range(rng.randint(1, 20))
        )
        for _ in range(NUM_DOCUMENTS)
    ]
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(documents))
    return CorpusConfig(
        corpus=(str(path),), max_seq_length=LENGTH, held_out_fraction=0.1
    )


@pytest.fixture(scope="module")
def plain(config, tmp_path_factory):
    directory = tmp_path_factory.mktemp("plain")
    build(config, VOCABULARY, output_dir=str(directory))
    return directory


@pytest.fixture(scope="module")
def bucketed_config(config):
    return dataclasses.replace(
        config, length_buckets=(8, 16, LENGTH), num_shards=6
    )


@pytest.fixture(scope="module")
def bucketed(bucketed_config, tmp_path_factory):
    directory = tmp_path_factory.mktemp("bucketed")
    build(bucketed_config, VOCABULARY, output_dir=str(directory))
    return directory


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def rows_of(paths, length):
    """Returns the tokens of each record."""
    serialized = list(tf.data.TFRecordDataset([str(path) for path in paths]))
    features = parse(tf.stack(serialized), length)
    ids, mask = features["input_ids"].numpy(), features["input_mask"].numpy()
    return [row[keep > 0].tolist() for row, keep in zip(ids, mask, strict=True)]


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


def test_one_pass_gives_what_a_build_of_each_length_gives(
    config, plain, num_tokenized, tmp_path
):
    phases = dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")
    manifest = build(phases, VOCABULARY, output_dir=f"{tmp_path}/both/")
    assert sum(num_tokenized) == NUM_DOCUMENTS
    assert manifest["max_seq_length"] == LENGTH
    short = dataclasses.replace(config, max_seq_length=16)
    build(short, VOCABULARY, output_dir=str(tmp_path / "short"))
    assert contents(tmp_path / "both") == contents(plain)
    assert contents(tmp_path / "both_16") == contents(tmp_path / "short")


def test_no_data_set_is_replaced_unasked(config, plain, tmp_path):
    (tmp_path / "out_16").mkdir()
    for path in plain.iterdir():
        (tmp_path / "out_16" / path.name).write_bytes(path.read_bytes())
    phases = dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")
    with pytest.raises(UserError, match="out_16.*--overwrite"):
        build(phases, VOCABULARY, output_dir=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_all_data_sets_are_published_or_none(config, tmp_path, monkeypatch):
    publish = ShardWriter.publish

    def fail(writer):
        if writer._directory.endswith("out"):
            raise OSError("the disk is gone")
        return publish(writer)

    phases = dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")
    with monkeypatch.context() as patch:
        patch.setattr(merge.ShardWriter, "publish", fail)
        with pytest.raises(UserError, match="the same command goes on"):
            build(phases, VOCABULARY, output_dir=str(tmp_path / "out"))
    assert not list((tmp_path / "out_16").iterdir())
    build(phases, VOCABULARY, output_dir=str(tmp_path / "out"))
    for name in ("out", "out_16"):
        assert (tmp_path / name / "manifest.json").exists()


def test_a_training_record_has_the_shortest_length_that_holds_it(
    plain, bucketed, bucketed_config
):
    rows = {
        length: rows_of(
            bucketed.glob(f"pretrain_data.tfrecord-{name}[0-9]-of-*"), length
        )
        for length, name in ((8, "8-tokens-"), (16, "16-tokens-"), (LENGTH, ""))
    }
    for shorter, (length, some) in zip((0, 8, 16), rows.items(), strict=True):
        sizes = [len(row) for row in some]
        assert shorter < min(sizes) and max(sizes) <= length
    whole = rows_of(plain.glob("pretrain_data*"), LENGTH)
    assert sorted(sum(rows.values(), [])) == sorted(whole)
    held_out = [path.name for path in bucketed.glob("held_out_data*")]
    assert held_out == ["held_out_data.tfrecord-0-of-1"]
    assert contents(bucketed)[held_out[0]] == contents(plain)[held_out[0]]
    num_files = len(list(bucketed.glob("pretrain_data*")))
    assert num_files == bucketed_config.num_shards


def test_the_padding_of_each_length_is_counted(bucketed, bucketed_config):
    counts = json.loads((bucketed / "manifest.json").read_text())["counts"]
    train = Records.open(
        f"{bucketed}/pretrain*", bucketed_config, VOCABULARY
    ).buckets
    held_out = Records.open(
        f"{bucketed}/held_out*", bucketed_config, VOCABULARY
    )
    assert [bucket.max_seq_length for bucket in train] == [8, 16, LENGTH]
    tokens = slots = 0
    for bucket in (*train, held_out):
        rows = rows_of(
            [file.path for file in bucket.files], bucket.max_seq_length
        )
        assert bucket.num_records == len(rows)
        tokens += sum(map(len, rows))
        slots += bucket.max_seq_length * len(rows)
    assert counts["padding_share"] == pytest.approx(
        1 - tokens / slots, abs=1e-6
    )
    assert counts["padding_share"] < 0.3


def test_records_of_other_buckets_are_refused(
    config, plain, bucketed, bucketed_config, tmp_path
):
    with pytest.raises(UserError, match=r"length_buckets is \[8, 16\] there"):
        Records.open(f"{bucketed}/pretrain*", config, VOCABULARY)
    with pytest.raises(UserError, match=r"length_buckets is \[\] there"):
        Records.open(f"{plain}/pretrain*", bucketed_config, VOCABULARY)
    bare = tmp_path / "pretrain_data.tfrecord-0-of-1"
    bare.write_bytes((plain / bare.name).read_bytes())
    assert Records.open(str(bare), config, VOCABULARY).num_records
    with pytest.raises(UserError, match="drop --length_buckets"):
        Records.open(str(bare), bucketed_config, VOCABULARY)


def test_segments_and_masks_are_cut_with_the_ids(bucketed):
    path = next(bucketed.glob("*tfrecord-16-tokens-0-of-*"))
    features = parse(tf.stack(list(tf.data.TFRecordDataset(str(path)))), 16)
    ids, mask, segments = (features[n].numpy() for n in features)
    np.testing.assert_array_equal(ids > 0, mask > 0)
    assert segments.any() and (segments <= mask).all()
