"""A run finds its vocabulary and records, or builds them from its corpus."""

import dataclasses
import functools
import os
import pathlib
import random
import shutil

import pytest
import tensorflow as tf

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


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = random.Random(1)
    lines = [" ".join(rng.choices(WORDS, k=12)) for _ in range(200)]
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n\n".join(lines))
    return CorpusConfig(corpus=(str(path),), vocab_size=60, max_seq_length=16)


def configuration(corpus, data_dir):
    run = RunConfig(data_dir=str(data_dir), model_name="test")
    return PretrainingConfig(run=run, corpus=corpus)


@pytest.fixture
def config(corpus, tmp_path):
    """A run whose data directory is empty."""
    return configuration(corpus, tmp_path / "data")


@pytest.fixture(scope="module")
def data_dir(corpus, tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    prepare(configuration(corpus, directory))
    return directory


@pytest.fixture
def prepared(config, data_dir, tmp_path):
    """A run whose data directory holds vocabulary and records."""
    shutil.copytree(data_dir, tmp_path / "data")
    return config


def replace(config, part, **changes):
    changed = dataclasses.replace(getattr(config, part), **changes)
    return dataclasses.replace(config, **{part: changed})


def test_vocabulary_and_records_are_built_from_the_corpus_once(config):
    log_lines = []
    vocabulary, train, held_out = prepare(config, log=log_lines.append)
    assert vocabulary == Vocabulary.from_file(config.vocab_file)
    assert 30 < vocabulary.size <= 60
    assert train[16].num_records > held_out.num_records > 0
    for corpus in (config.corpus.corpus, ()):
        again = replace(config, "corpus", corpus=corpus)
        found = prepare(again, log=log_lines.append)
        assert found == (vocabulary, train, held_out)
    assert sum(line.startswith("Learned") for line in log_lines) == 1


def test_a_data_directory_with_glob_characters_has_its_own_records(
    config, tmp_path
):
    for directory in ("d1", "d[1],\\*"):
        config = replace(config, "run", data_dir=str(tmp_path / directory))
        _, train, held_out = prepare(config)
        for records in (train[16], held_out):
            for file in records.files:
                parent = tmp_path / directory / "pretrain_tfrecords"
                assert file.path.startswith(f"{parent}{os.sep}")


def test_the_vocabulary_of_the_initial_weights_is_used_if_none_is_named(
    config, tmp_path
):
    words = Vocabulary((*SPECIAL_TOKENS, *WORDS))
    prepare_with = functools.partial(prepare, initial_vocabulary=words)
    assert prepare_with(config).vocabulary == words
    assert Vocabulary.from_file(config.vocab_file) == words
    named = str(tmp_path / "named.txt")
    other = replace(config, "run", data_dir=str(tmp_path / "other"))
    learned = prepare_with(replace(other, "corpus", vocab_file=named))
    assert learned.vocabulary == Vocabulary.from_file(named) != words
    assert not os.path.exists(other.vocab_file)
    for values in ({"tokenizer": "sentencepiece"}, {"vocab_size": 7}):
        empty = replace(config, "run", data_dir=str(tmp_path / "empty"))
        bad = replace(empty, "corpus", **values)
        with pytest.raises(UserError):
            prepare_with(bad)
        assert not os.path.exists(bad.vocab_file)


@pytest.mark.parametrize("pattern", ["", "**/*"])
def test_what_runs_write_is_not_part_of_the_text(corpus, tmp_path, pattern):
    for name in ("models/other/lock", "pretrain_tfrecords/leftover"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("7 7\n\n" * 99)
    shutil.copy(corpus.corpus[0], tmp_path)
    config = configuration(corpus, tmp_path)
    config = replace(config, "corpus", corpus=(f"{tmp_path}/{pattern}",))
    vocabulary = prepare(config).vocabulary
    assert "7" not in vocabulary.tokens
    manifest = files.read_object(f"{config.records_dir}/manifest.json")
    assert manifest["counts"]["documents"] == 200


OTHER_CHOICES = {
    "split_sentences": True,
    "drop_duplicates": True,
    "held_out_fraction": 0.02,
    "blanks_separate_docs": False,
    "data_seed": 7,
}


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("corpus", "vocab_size", 20),
        ("corpus", "max_seq_length", 32),
        *(("corpus", name, value) for name, value in OTHER_CHOICES.items()),
        ("data", "pretrain_tfrecords", "mine*"),
    ],
)
def test_other_records_than_the_run_asks_for_are_refused(
    prepared, part, name, value
):
    for corpus in (prepared.corpus.corpus, ()):
        config = replace(prepared, "corpus", corpus=corpus)
        with pytest.raises(UserError, match=name if part == "corpus" else ""):
            prepare(replace(config, part, **{name: value}))


def test_default_settings_must_match_only_for_the_runs_own_corpus(config):
    prepare(replace(config, "corpus", **OTHER_CHOICES))
    prepare(replace(config, "corpus", corpus=()))
    prepare(replace(config, "corpus", corpus=("another.txt",)))
    with pytest.raises(UserError, match="data_seed"):
        prepare(config)


def test_records_of_another_corpus_than_the_runs_give_a_warning(
    prepared, capsys
):
    own = prepared.corpus.corpus
    for named, is_warned in ((("other.txt",), True), ((), False), (own, False)):
        prepare(replace(prepared, "corpus", corpus=named))
        assert ("WARNING" in capsys.readouterr().err) == is_warned


def test_a_manifest_without_optional_settings_accepts_any(prepared, tmp_path):
    path = tmp_path / "data/pretrain_tfrecords/manifest.json"
    manifest = files.read_json(path)
    for name in OTHER_CHOICES:
        del manifest[name]
    files.write_json(path, manifest)
    prepare(replace(prepared, "corpus", **OTHER_CHOICES))


def phases_of(config):
    """Returns a run with rows of 16 tokens, then of 32."""
    return replace(
        config, "corpus", max_seq_length=32, seq_length_phases="16:0.9,32:0.1"
    )


@pytest.fixture
def phases(config):
    return phases_of(config)


@pytest.fixture(scope="module")
def data_dir_of_phases(corpus, tmp_path_factory):
    directory = tmp_path_factory.mktemp("phases")
    prepare(phases_of(configuration(corpus, directory)))
    return directory


@pytest.fixture
def prepared_phases(phases, data_dir_of_phases, tmp_path):
    """A run of two row lengths whose data directory holds all records."""
    shutil.copytree(data_dir_of_phases, tmp_path / "data")
    return phases


def test_a_corpus_gives_the_records_of_all_phases(phases):
    _, train, held_out = prepare(phases)
    assert [records.max_seq_length for records in train.values()] == [16, 32]
    assert list(train) == [16, 32] and held_out.max_seq_length == 32
    directories = [train[n].files[0].path.split("/")[-2] for n in train]
    assert directories == ["pretrain_tfrecords_16", "pretrain_tfrecords"]
    assert prepare(phases)[1:] == (train, held_out)


def test_records_of_phases_may_lie_anywhere(prepared_phases, tmp_path):
    train = prepare(prepared_phases).train
    (tmp_path / "data/pretrain_tfrecords").rename(tmp_path / "a")
    (tmp_path / "data/pretrain_tfrecords_16").rename(tmp_path / "a_16")
    named = str(tmp_path / "a/pretrain_data*")
    found = prepare(replace(prepared_phases, "data", pretrain_tfrecords=named))
    for length, records in found.train.items():
        assert records.num_records == train[length].num_records
    assert found.train[16].files[0].path.startswith(f"{tmp_path}/a_16/")
    assert found.held_out is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("data_seed", 7), ("held_out_fraction", 0.3), ("corpus", ["other.txt"])],
)
def test_records_of_phases_from_two_builds_are_refused(
    prepared_phases, tmp_path, name, value
):
    path = tmp_path / "data/pretrain_tfrecords_16/manifest.json"
    files.write_json(path, {**files.read_json(path), name: value})
    # It names no corpus, so that no setting of its own has to match.
    phases = replace(prepared_phases, "corpus", corpus=())
    with pytest.raises(UserError):
        prepare(phases)


def test_records_of_some_phases_only_are_refused(prepared_phases, tmp_path):
    shutil.rmtree(tmp_path / "data/pretrain_tfrecords_16")
    with pytest.raises(UserError, match="tfrecords_16"):
        prepare(prepared_phases)


@pytest.mark.parametrize("number", [0, 1])
def test_records_of_a_killed_build_are_built_again(phases, number):
    phases = replace(phases, "runtime", num_processes=1)
    prepare(phases)
    directory = pathlib.Path(phases.records_dirs[number])
    (directory / ".parts").mkdir()
    (directory / "manifest.json").unlink()
    with pytest.raises(UserError):
        prepare(replace(phases, "corpus", corpus=()))
    _, train, held_out = prepare(phases)
    assert held_out.max_seq_length == 32
    for length, directory in zip(train, phases.records_dirs, strict=True):
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


def test_a_data_set_without_counts_is_refused_where_they_are_needed(
    prepared, tmp_path
):
    (tmp_path / "data/pretrain_tfrecords/unigram_counts.txt").unlink()
    prepare(prepared)
    with pytest.raises(tf.errors.NotFoundError, match="unigram_counts.txt"):
        prepare(replace(prepared, "masking", masking_strategy="unigram"))
