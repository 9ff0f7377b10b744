"""A run finds its vocabulary and records, or builds them from its corpus."""

import dataclasses
import os
import pathlib
import random
import shutil

import pytest

from electra_tf.configure_pretraining import (
    CorpusConfig,
    PretrainingConfig,
    RunConfig,
)
from electra_tf.data.preparation import prepare
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files
from electra_tf.util.errors import UserError

WORDS = "the quick brown fox jumps over a lazy dog while cats sleep".split()


def replace(config, part, **changes):
    changed = dataclasses.replace(getattr(config, part), **changes)
    return dataclasses.replace(config, **{part: changed})


def of_directory(config, data_dir):
    return replace(config, "run", data_dir=str(data_dir))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A run of the corpus."""
    rng = random.Random(1)
    lines = [" ".join(rng.choices(WORDS, k=12)) for _ in range(200)]
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(lines))
    corpus = CorpusConfig(corpus=(str(path),), vocab_size=60, max_seq_length=32)
    run = RunConfig(data_dir="set by each test", model_name="test")
    config = PretrainingConfig(run=run, corpus=corpus)
    return replace(config, "corpus", seq_length_phases="16:0.9,32:0.1")


@pytest.fixture
def config(template, tmp_path):
    """A run with rows of 16 and then of 32 tokens, and an empty directory."""
    return of_directory(template, tmp_path / "data")


@pytest.fixture(scope="module")
def data_dir(template, tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    prepare(of_directory(template, directory))
    return directory


@pytest.fixture
def prepared(config, data_dir, tmp_path):
    """A run whose data directory holds vocabulary and records."""
    shutil.copytree(data_dir, tmp_path / "data")
    return config


def test_vocabulary_and_records_are_built_from_the_corpus_once(config, capsys):
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
    for corpus in (config.corpus.corpus, ()):
        again = replace(config, "corpus", corpus=corpus)
        found = prepare(again)
        assert found == (vocabulary, train, held_out)
    output = capsys.readouterr()
    assert output.out.count("Learned") == 1 and "WARNING" not in output.err
    prepare(replace(config, "corpus", corpus=("other.txt",)))
    assert "WARNING" in capsys.readouterr().err


def test_the_vocabulary_of_the_initial_weights_is_used_if_none_is_named(
    config, tmp_path
):
    words = Vocabulary((*SPECIAL_TOKENS, *WORDS))
    assert prepare(config, initial_vocabulary=words).vocabulary == words
    assert Vocabulary.from_file(config.vocab_file) == words
    other = of_directory(config, tmp_path / "other")
    named = replace(other, "corpus", vocab_file=str(tmp_path / "named.txt"))
    learned = prepare(named, initial_vocabulary=words).vocabulary
    assert learned == Vocabulary.from_file(named.vocab_file) != words
    for values in ({"tokenizer": "sentencepiece"}, {"vocab_size": 7}):
        empty = of_directory(config, tmp_path / "empty")
        bad = replace(empty, "corpus", **values)
        with pytest.raises(UserError):
            prepare(bad, initial_vocabulary=words)
        assert not os.path.exists(bad.vocab_file)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("corpus", "vocab_size", 20),
        ("corpus", "drop_duplicates", True),
        ("corpus", "held_out_fraction", 0.02),
        ("corpus", "data_seed", 7),
        ("training", "pretrain_tfrecords", "mine*"),
        ("training", "eval_tfrecords", "mine*"),
    ],
)
def test_other_records_than_the_run_asks_for_are_refused(
    prepared, part, name, value
):
    for corpus in (prepared.corpus.corpus, ()):
        config = replace(prepared, "corpus", corpus=corpus)
        with pytest.raises(
            UserError, match=name if part == "corpus" else "mine"
        ):
            prepare(replace(config, part, **{name: value}))


def test_records_of_phases_may_lie_anywhere(prepared, tmp_path):
    train = prepare(prepared).train
    (tmp_path / "data/pretrain_tfrecords").rename(tmp_path / "a")
    (tmp_path / "data/pretrain_tfrecords_16").rename(tmp_path / "a_16")
    named = str(tmp_path / "a/pretrain_data*")
    found = prepare(replace(prepared, "training", pretrain_tfrecords=named))
    for length, records in found.train.items():
        assert records.num_records == train[length].num_records
    assert found.train[16].files[0].path.startswith(f"{tmp_path}/a_16/")
    assert found.held_out is None


@pytest.mark.parametrize("name", ["data_seed", "corpus", ""])
def test_records_of_phases_must_be_of_one_build(prepared, tmp_path, name):
    path = tmp_path / "data/pretrain_tfrecords_16/manifest.json"
    if name:
        files.write_json(path, {**files.read_json(path), name: 7})
    else:
        shutil.rmtree(path.parent)
    # The run names no corpus, so that no setting of its own has to match.
    with pytest.raises(UserError):
        prepare(replace(prepared, "corpus", corpus=()))


@pytest.mark.parametrize("number", [0, 1])
def test_records_of_a_killed_build_are_built_again(prepared, number):
    for directory in map(pathlib.Path, prepared.records_dirs):
        (directory / ".parts").mkdir()
    (pathlib.Path(prepared.records_dirs[number]) / "manifest.json").unlink()
    with pytest.raises(UserError):
        prepare(replace(prepared, "corpus", corpus=()))
    train = prepare(prepared).train
    for length, directory in zip(train, prepared.records_dirs, strict=True):
        assert train[length].directories == (directory,)
        assert not os.path.exists(f"{directory}/.parts")


def test_the_vocabulary_has_counts_where_they_are_needed(prepared):
    assert prepare(prepared).vocabulary.counts is None
    for_masks = replace(prepared, "masking", masking_strategy="unigram")
    for_samples = replace(prepared, "objective", generator_type="unigram")
    vocabulary = prepare(for_masks).vocabulary
    assert prepare(for_samples).vocabulary.counts == vocabulary.counts
    counts = dict(zip(vocabulary.tokens, vocabulary.counts, strict=True))
    assert counts["[CLS]"] == counts["[PAD]"] == 0
    assert 100 < counts["fox"] < 300  # 2400 words, 12 different ones
