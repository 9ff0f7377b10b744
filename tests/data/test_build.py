"""A build keeps every token, is deterministic, and publishes all or nothing."""

import collections
import dataclasses
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import time

import filelock
import golden_arrays
import pytest
import tensorflow as tf
import tiny_corpus
from tiny_corpus import DOCUMENTS, LENGTH, VOCABULARY, build, contents, rows_of

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import build as build_lib
from electra_tf.data import packing, records
from electra_tf.data.build import LocalEngine
from electra_tf.data.reading import Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import DirectoryInUseError, UserError

GOLDEN = golden_arrays.FULL / "data"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return tiny_corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(build_lib, "SHARD_BYTES", 4000)


@pytest.fixture(scope="module")
def built(config, tmp_path_factory):
    """The data set of `config`, built once; tests must not change it."""
    directory = tmp_path_factory.mktemp("built")
    build(config, directory)
    return directory


@pytest.fixture
def out(built, tmp_path):
    """A copy of the data set, which a test may change."""
    return shutil.copytree(built, tmp_path / "out")


@pytest.fixture(scope="module")
def phases(config):
    return dataclasses.replace(config, seq_length_phases="16:0.9,32:0.1")


def train_rows(directory):
    return rows_of(sorted(directory.glob("pretrain_data*")))


def held_out_rows(directory):
    return rows_of(sorted(directory.glob("held_out_data*")))


def count_words(rows):
    specials = (VOCABULARY.cls_id, VOCABULARY.sep_id)
    return collections.Counter(i for x in rows for i in x if i not in specials)


def words_of(documents):
    text = " ".join(line for document in documents for line in document)
    ids = {token: i for i, token in enumerate(VOCABULARY.tokens)}
    return collections.Counter(ids[word] for word in text.lower().split())


def test_every_token_of_the_corpus_is_in_one_record(config, built):
    train, held_out = train_rows(built), held_out_rows(built)
    assert count_words(train + held_out) == words_of(DOCUMENTS)
    for name, rows in (("pretrain_data", train), ("held_out_data", held_out)):
        opened = Records.open(f"{built}/{name}*", config, VOCABULARY)
        assert opened.num_records == len(rows)
    num_tokens = words_of(DOCUMENTS).total()
    num_slots = LENGTH * len(train + held_out)
    share = 1 - sum(map(len, train + held_out)) / num_slots
    counts = json.loads((built / "manifest.json").read_text())["counts"]
    assert (
        counts.items()
        >= {
            "documents": len(DOCUMENTS),
            "tokens_read": num_tokens,
            "tokens_kept": num_tokens,
            "tokens_dropped": 0,
            "records": len(train + held_out),
            "held_out_records": len(held_out),
            "train_tokens": count_words(train).total(),
            "padding_share": round(share, 6),
        }.items()
    )
    unigrams = records.read_unigram_counts([str(built)] * 2, VOCABULARY)
    found = {i: n // 2 for i, n in enumerate(unigrams) if n}
    assert found == dict(count_words(train))


def test_records_do_not_depend_on_files_shards_batches_or_threads(
    config, built, tmp_path, monkeypatch, small_shards
):
    monkeypatch.setattr(packing, "BATCH_CHARACTERS", 500)
    monkeypatch.setattr(packing, "MAX_THREADS", 1)
    several = tmp_path / "several"
    several.mkdir()
    for i, document in enumerate(reversed(DOCUMENTS)):
        (several / f"{i}.txt").write_text("\n".join(document))
    config = dataclasses.replace(config, corpus=(str(several),), num_shards=3)
    build(config, tmp_path / "out")
    for rows in (train_rows, held_out_rows):
        assert sorted(rows(tmp_path / "out")) == sorted(rows(built))
    unigrams = contents(tmp_path / "out")["unigram_counts.txt"]
    assert unigrams == contents(built)["unigram_counts.txt"]


SETTINGS = (
    {"drop_duplicates": True, "num_shards": 7},
    {"held_out_fraction": 1e-9, "packing": "packed"},
    {"seq_length_phases": "16:0.9,32:0.1", "num_shards": 200},
)


def test_processes_build_the_same_bytes(config, tmp_path, small_shards):
    config = dataclasses.replace(config, num_shards=7)
    build(config, tmp_path / "one")
    build(config, tmp_path / "two", engine=LocalEngine(2))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.extras
@pytest.mark.parametrize("settings", SETTINGS)
def test_beam_builds_the_same_bytes(config, tmp_path, small_shards, settings):
    from electra_tf.data.beam import BeamEngine

    config = dataclasses.replace(config, **settings)
    manifest = build(config, tmp_path / "one")
    build(config, tmp_path / "beam", engine=BeamEngine("DirectRunner"))
    assert contents(tmp_path / "beam") == contents(tmp_path / "one")
    assert manifest["counts"]["held_out_documents"] > 0


def test_a_data_set_is_not_overwritten_unasked(config, phases, built, out):
    shutil.copytree(out, out.parent / "new_16")
    for requested, directory in ((config, out), (phases, out.parent / "new")):
        with pytest.raises(UserError, match="--overwrite"):
            build(requested, directory)
    assert contents(out) == contents(built)
    (out / "manifest.json").unlink()
    with pytest.raises(UserError, match="--overwrite"):
        build(config, out)


def test_only_a_whole_build_replaces_the_older_data_set(config, built, out):
    (out / "pretrain_data.tfrecord-7-of-9").write_text("old")
    older, damaged = contents(out), out.parent / "damaged.xz"
    damaged.write_bytes(b"damaged")
    corpus = (*config.corpus, str(damaged))
    with pytest.raises(UserError, match=r"damaged\.xz"):
        build(dataclasses.replace(config, corpus=corpus), out, overwrite=True)
    assert contents(out) == older
    build(config, out, overwrite=True)
    assert contents(out) == contents(built)


class Killed(BaseException):
    """Ends a process that removes nothing of what it made."""


@pytest.mark.parametrize("number", [0, 2, 3, 5])
def test_a_killed_build_starts_again(phases, tmp_path, number, monkeypatch):
    """Each step names a file, or writes the counts of a data set."""
    out, steps = tmp_path / "out", iter(range(99))
    if number < 3:
        build(dataclasses.replace(phases, data_seed=1), out)

    def killed(function):
        def step(*args):
            if next(steps) == number:
                patch.setattr(tf.io.gfile, "rmtree", lambda _: None)
                raise Killed
            function(*args)

        return step

    with monkeypatch.context() as patch:
        counts = records.write_unigram_counts
        patch.setattr(tf.io.gfile, "rename", killed(tf.io.gfile.rename))
        patch.setattr(records, "write_unigram_counts", killed(counts))
        with pytest.raises(Killed):
            build(phases, out, overwrite=number < 3)
    with pytest.raises(UserError, match="stopped|No records"):
        Records.open(f"{out}/pretrain_data*", phases, VOCABULARY)
    build(phases, out)
    build(phases, tmp_path / "whole")
    for ending in ("", "_16"):
        found, expected = f"out{ending}", f"whole{ending}"
        assert contents(tmp_path / found) == contents(tmp_path / expected)


def test_one_build_at_a_time(config, tmp_path):
    with filelock.FileLock(tmp_path / ".lock"):
        with pytest.raises(DirectoryInUseError):
            build(config, tmp_path)
    build(config, tmp_path)


PARTS = [build_lib.Shard((), "a"), build_lib.Shard((), "b")]


def _die(shard):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_process_ends_the_build():
    with pytest.raises(MemoryError):
        LocalEngine(2).map(_die, PARTS)


def _live_on(shard):
    pathlib.Path(os.environ["STARTED"]).write_text(str(os.getpid()))
    time.sleep(60)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_no_process_outlives_a_killed_build(tmp_path, monkeypatch):
    started = tmp_path / "started"
    monkeypatch.setenv("STARTED", str(started))
    build = multiprocessing.get_context("spawn").Process(
        target=LocalEngine(2).map, args=(_live_on, PARTS)
    )
    build.start()
    while not (started.exists() and started.read_text()):
        time.sleep(0.1)
    build.kill()
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{started.read_text()}"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_text_without_tokens_is_an_error(config, tmp_path):
    (tmp_path / "marks.txt").write_text("\u200d\n\n\u200d\u200d\n")
    config = dataclasses.replace(config, corpus=(str(tmp_path / "marks.txt"),))
    with pytest.raises(UserError):
        build(config, tmp_path / "out")
    assert not contents(tmp_path / "out")


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the original's records")
@pytest.mark.parametrize(
    "name", ["seq128", "seq64_noblank", "seq32_cased_noaccentstrip", "seq512"]
)
def test_original_packing_reproduces_the_records_of_the_original(
    tmp_path, name
):
    meta = json.loads((GOLDEN / "meta.json").read_text())[name]
    config = CorpusConfig(
        corpus=(str(GOLDEN / "text200.txt"),),
        packing="original",
        held_out_fraction=0.0,
        num_shards=meta["num_out_files"],
        data_seed=meta["seed"],
        max_seq_length=meta["max_seq_length"],
        blanks_separate_docs=meta["blanks_separate_docs"],
        do_lower_case=meta["do_lower_case"],
        strip_accents=meta["strip_accents"],
    )
    vocabulary = Vocabulary.from_file(str(golden_arrays.VOCAB_FILE))
    manifest = build(config, tmp_path, vocabulary)
    assert manifest["counts"]["tokens_dropped"] > 0
    for path in sorted((GOLDEN / name).glob("*.tfrecord*")):
        ours, theirs = (
            [
                tf.train.Example.FromString(x.numpy())
                for x in tf.data.TFRecordDataset(str(each))
            ]
            for each in (tmp_path / path.name, path)
        )
        assert ours == theirs
