"""A run finds its vocabulary and records, or builds them from its corpus."""

import os
import pathlib
import random
import shutil

import pytest
import tiny

from electra_tf.data.preparation import prepare
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files
from electra_tf.util.errors import UserError

WORDS = "the quick brown fox jumps over a lazy dog while cats sleep".split()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Makes a run with rows of 16 and then of 32 tokens: data_dir, flags."""
    rng = random.Random(1)
    lines = [" ".join(rng.choices(WORDS, k=12)) for _ in range(200)]
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(lines))
    flags = {"corpus": (str(path),), "vocab_size": 60, "max_seq_length": 32}
    flags["seq_length_phases"] = "16:0.9,32:0.1"
    return lambda data_dir, **others: tiny.config(data_dir, **flags | others)


@pytest.fixture(scope="module")
def built(run, tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    prepare(run(directory))
    return directory


@pytest.fixture
def data_dir(built, tmp_path):
    """A copy of a data directory that holds vocabulary and records."""
    return shutil.copytree(built, tmp_path / "data")


def test_vocabulary_and_records_are_built_from_the_corpus_once(
    run, tmp_path, capsys
):
    config = run(tmp_path)
    vocabulary, train, held_out = prepare(config)
    assert vocabulary == Vocabulary.from_file(config.vocab_file)
    assert 30 < vocabulary.size <= 60
    assert train[16].num_records > held_out.num_records > 0
    assert [records.max_seq_length for records in train.values()] == [16, 32]
    assert list(train) == [16, 32] and held_out.max_seq_length == 32
    assert {n: files.directories[0] for n, files in train.items()} == {
        16: f"{config.records_dir}_16",
        32: config.records_dir,
    }
    for again in (config, run(tmp_path, corpus=())):
        assert prepare(again) == (vocabulary, train, held_out)
    output = capsys.readouterr()
    assert output.out.count("Learned") == 1 and "WARNING" not in output.err
    prepare(run(tmp_path, corpus=("other.txt",)))
    assert "WARNING" in capsys.readouterr().err


def test_the_vocabulary_of_the_initial_weights_is_used_if_none_is_named(
    run, tmp_path
):
    words, config = Vocabulary((*SPECIAL_TOKENS, *WORDS)), run(tmp_path / "a")
    assert prepare(config, initial_vocabulary=words).vocabulary == words
    assert Vocabulary.from_file(config.vocab_file) == words
    named = run(tmp_path / "b", vocab_file=str(tmp_path / "named.txt"))
    learned = prepare(named, initial_vocabulary=words).vocabulary
    assert learned == Vocabulary.from_file(named.vocab_file) != words
    for flags in ({"tokenizer": "sentencepiece"}, {"vocab_size": 7}):
        bad = run(tmp_path / "c", **flags)
        with pytest.raises(UserError):
            prepare(bad, initial_vocabulary=words)
        assert not os.path.exists(bad.vocab_file)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"vocab_size": 20}, "vocab_size"),
        ({"drop_duplicates": True}, "drop_duplicates"),
        ({"held_out_fraction": 0.02}, "held_out_fraction"),
        ({"data_seed": 7}, "data_seed"),
        ({"pretrain_tfrecords": "mine*"}, "mine"),
        ({"eval_tfrecords": "mine*"}, "mine"),
    ],
)
def test_other_records_than_the_run_asks_for_are_refused(
    run, data_dir, flags, named
):
    for others in ({}, {"corpus": ()}):
        with pytest.raises(UserError, match=named):
            prepare(run(data_dir, **flags, **others))


def test_records_of_phases_may_lie_anywhere(run, data_dir, tmp_path):
    train = prepare(run(data_dir)).train
    (data_dir / "pretrain_tfrecords").rename(tmp_path / "a")
    (data_dir / "pretrain_tfrecords_16").rename(tmp_path / "a_16")
    named = str(tmp_path / "a/pretrain_data*")
    found = prepare(run(data_dir, pretrain_tfrecords=named))
    for length, records in found.train.items():
        assert records.num_records == train[length].num_records
    assert found.train[16].files[0].path.startswith(f"{tmp_path}/a_16/")
    assert found.held_out is None


@pytest.mark.parametrize("name", ["data_seed", "corpus", ""])
def test_records_of_phases_must_be_of_one_build(run, data_dir, name):
    path = data_dir / "pretrain_tfrecords_16/manifest.json"
    if name:
        files.write_json(path, {**files.read_json(path), name: 7})
    else:
        shutil.rmtree(path.parent)
    # The run names no corpus, so that no setting of its own has to match.
    with pytest.raises(UserError):
        prepare(run(data_dir, corpus=()))


@pytest.mark.parametrize("number", [0, 1])
def test_records_of_a_killed_build_are_built_again(run, data_dir, number):
    directories = [*map(pathlib.Path, run(data_dir).records_dirs)]
    for directory in directories:
        (directory / ".parts").mkdir()
    (directories[number] / "manifest.json").unlink()
    with pytest.raises(UserError):
        prepare(run(data_dir, corpus=()))
    train = prepare(run(data_dir)).train
    for records, directory in zip(train.values(), directories, strict=True):
        assert records.directories == (str(directory),)
        assert not (directory / ".parts").exists()


def test_the_vocabulary_has_counts_where_they_are_needed(run, data_dir):
    assert prepare(run(data_dir)).vocabulary.counts is None
    for_masks = prepare(run(data_dir, masking_strategy="unigram")).vocabulary
    for_samples = prepare(run(data_dir, generator_type="unigram")).vocabulary
    assert for_samples.counts == for_masks.counts
    counts = dict(zip(for_masks.tokens, for_masks.counts, strict=True))
    assert counts["[CLS]"] == counts["[PAD]"] == 0
    assert 100 < counts["fox"] < 300  # 2400 words, 12 different ones
