"""A store holds corpus, data set and model as this machine does.

TensorFlow's ram:// stands for gs:// and the like.
"""

import gzip
import io
import json
import random
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.build_pretraining_dataset import BuildConfig
from electra_tf.build_pretraining_dataset import main as build_records
from electra_tf.build_vocab import VocabConfig
from electra_tf.build_vocab import main as build_vocab
from electra_tf.checkpoint import bundles
from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import shards
from electra_tf.data.dataset_files import read_unigram_counts
from electra_tf.data.records import Records
from electra_tf.data.vocabularies import open_vocabulary
from electra_tf.pretrain import pretraining_run
from electra_tf.pretrain.pretrain_data import training_dataset
from electra_tf.training.callbacks import read_log
from electra_tf.util import files, locks, storage
from electra_tf.util.errors import StoppedBySignal, UserError
from tests import run_files, tiny

WORDS = "it was the best of times the worst of times".split()


def write_corpus(root):
    """Writes a file of each kind."""
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=30)) for _ in range(60)]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz") as tar:
        for number, text in enumerate(texts[:9]):
            info = tarfile.TarInfo(f"{number}.txt")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    contents = {
        "a.txt": "\n\n".join(texts[9:40]).encode(),
        "b.txt.gz": gzip.compress("\n\n".join(texts[40:50]).encode(), mtime=0),
        "c.tar.xz": archive.getvalue(),
        "d.jsonl": "\n".join(
            json.dumps({"text": text}) for text in texts[50:]
        ).encode(),
    }
    for name, content in contents.items():
        storage.make_directories(f"{root}/corpus")
        if storage.is_remote(root):
            storage.write_bytes(f"{root}/corpus/{name}", content)
        else:
            with open(f"{root}/corpus/{name}", "wb") as file:
                file.write(content)


def build(root):
    """Learns a vocabulary and builds a data set; returns its files."""
    write_corpus(root)
    corpus = CorpusConfig(
        corpus=(f"{root}/corpus",),
        vocab_file=f"{root}/vocab.txt",
        vocab_size=60,
        max_seq_length=16,
        held_out_fraction=0.1,
        num_shards=3,
    )
    build_vocab(VocabConfig(corpus=corpus))
    output_dir = f"{root}/records"
    build_records(
        BuildConfig(corpus=corpus, output_dir=output_dir, num_processes=1)
    )
    paths = storage.find(output_dir, ["*", ".*"])
    found = {
        path.rpartition("/")[2]: storage.read_bytes(path) for path in paths
    }
    manifest = json.loads(found.pop("manifest.json"))
    del manifest["corpus"]
    return corpus, found, manifest


def rows(root, corpus):
    vocabulary = open_vocabulary(corpus, corpus.vocab_file)
    records = Records.open(f"{root}/records/pretrain*", corpus, vocabulary)
    counts = read_unigram_counts(records.directories, vocabulary)
    assert len(counts) == vocabulary.size
    dataset = training_dataset(records, batch_size=8, seed=3, first_row=40)
    return np.array([inputs.input_ids for inputs in dataset.take(20)])


def test_a_store_is_as_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BYTES", 1500)
    here, there = str(tmp_path), f"ram://{tmp_path}"
    corpus_here, files_here, manifest_here = build(here)
    corpus_there, files_there, manifest_there = build(there)
    assert manifest_there == manifest_here
    assert len(files_there) == 5
    assert files_there == files_here
    expected = rows(here, corpus_here)
    assert (rows(there, corpus_there) == expected).all()
    config = BuildConfig(corpus=corpus_there, output_dir=f"{there}/records")
    with pytest.raises(UserError, match="must not hold a data set"):
        build_records(config)
    with pytest.raises(UserError, match="never overwritten"):
        build_vocab(VocabConfig(corpus=corpus_there))


def test_what_is_not_in_a_store_is_named(tmp_path):
    there = f"ram://{tmp_path}"
    config = CorpusConfig(
        corpus=(f"{there}/none*",), vocab_file=f"{there}/vocab.txt"
    )
    with pytest.raises(UserError, match=r"none\*.*matches no file"):
        build_vocab(VocabConfig(corpus=config))
    with pytest.raises(UserError, match=r"ram:.*vocab\.txt"):
        open_vocabulary(config, config.vocab_file)


def _train(root, corpus, callbacks=()):
    config = tiny.config(
        root,
        corpus=(f"{corpus}/corpus/*.txt",),
        vocab_size=60,
        held_out_fraction=0.1,
        num_processes=1,  # which share what is in memory
        num_train_steps=12,
        iterations_per_loop=3,
        save_checkpoints_steps=4,
        num_samples=0,
    )
    pretraining_run.run(config, callbacks)
    return config.run.model_dir


def _without_speed(record):
    return {k: v for k, v in record.items() if "per_second" not in k}


@pytest.mark.slow
def test_a_run_in_a_store_ends_with_the_bits_of_one_here(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.0)
    write_corpus(tmp_path)
    here = _train(str(tmp_path), tmp_path)
    with pytest.raises(StoppedBySignal):
        _train(f"ram://{tmp_path}", tmp_path, [run_files.Stop(5)])
    there = _train(f"ram://{tmp_path}", tmp_path)
    found = [
        {path.removeprefix(root) for path in storage.files_below(root)}
        for root in (here, there)
    ]
    # A stop may be a checkpoint of its own.
    stop = {f"/model.ckpt-5{end}" for end in (bundles.DATA, bundles.INDEX)}
    assert found[0] <= found[1] <= found[0] | stop
    expected = bundles.read(f"{here}/model.ckpt-12")
    trained = bundles.read(f"{there}/model.ckpt-12")
    assert expected.keys() == trained.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(trained[name], array)
    logs = [read_log(f"{root}/metrics.jsonl") for root in (here, there)]
    steps = [[record["step"] for record in log] for log in logs]
    assert steps[0] == steps[1]
    assert _without_speed(logs[0][-1]) == _without_speed(logs[1][-1])
    name = "results/pretraining_eval.json"
    assert files.read_json(f"{there}/{name}") == files.read_json(
        f"{here}/{name}"
    )
    rows = tf.constant([[2, 7, 8, 9, 3, 0]])
    ids = {"input_ids": rows, "input_mask": tf.sign(rows)}
    ids["segment_ids"] = tf.zeros_like(rows)
    for network in ("discriminator", "generator"):
        answers = [
            tf.saved_model.load(
                f"{root}/saved_model/{network}/ids/1"
            ).signatures["serving_default"](**ids)
            for root in (here, there)
        ]
        tf.nest.map_structure(np.testing.assert_array_equal, *answers)
