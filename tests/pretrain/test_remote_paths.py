"""A store holds corpus, data set and model as the local disk does.

TensorFlow's ram:// stands for gs:// and the like.
"""

import gzip
import io
import json
import random
import tarfile

import numpy as np
import pytest
import run_files
import tensorflow as tf
import tiny

from electra_tf.build_pretraining_dataset import BuildConfig
from electra_tf.build_pretraining_dataset import main as build_records
from electra_tf.build_vocab import VocabConfig
from electra_tf.build_vocab import main as build_vocab
from electra_tf.checkpoint import bundles
from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import shards
from electra_tf.data.dataset_files import read_unigram_counts
from electra_tf.data.reading import Records
from electra_tf.data.vocabularies import open_vocabulary
from electra_tf.pretrain import pretraining_run
from electra_tf.pretrain.pretrain_data import training_dataset
from electra_tf.training.callbacks import read_log
from electra_tf.util import files, locks, storage
from electra_tf.util.errors import StoppedBySignal, UserError

WORDS = "it was the best of times the worst of times".split()


def write_corpus(root):
    """Writes a corpus with a file of each format."""
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


def test_a_data_set_in_a_store_equals_a_local_one(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(shards, "SHARD_BYTES", 1500)
    local, remote = str(tmp_path), f"ram://{tmp_path}"
    local_corpus, local_files, local_manifest = build(local)
    remote_corpus, remote_files, remote_manifest = build(remote)
    assert remote_manifest == local_manifest
    assert len(remote_files) == 5
    assert remote_files == local_files
    expected = rows(local, local_corpus)
    assert (rows(remote, remote_corpus) == expected).all()
    config = BuildConfig(corpus=remote_corpus, output_dir=f"{remote}/records")
    with pytest.raises(UserError, match="must not hold a data set"):
        build_records(config)
    with pytest.raises(UserError, match="never overwritten"):
        build_vocab(VocabConfig(corpus=remote_corpus))


def test_files_missing_from_a_store_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.0)
    remote = f"ram://{tmp_path}"
    config = CorpusConfig(
        corpus=(f"{remote}/none*",), vocab_file=f"{remote}/vocab.txt"
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
        num_processes=1,  # as ram:// is memory of one process
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
def test_a_run_in_a_store_is_bit_exact_with_a_local_one(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.0)
    write_corpus(tmp_path)
    local = _train(str(tmp_path), tmp_path)
    with pytest.raises(StoppedBySignal):
        _train(f"ram://{tmp_path}", tmp_path, [run_files.Stop(5)])
    remote = _train(f"ram://{tmp_path}", tmp_path)
    found = [
        {path.removeprefix(root) for path in storage.files_below(root)}
        for root in (local, remote)
    ]
    # A stop may be a checkpoint of its own.
    stop = {f"/model.ckpt-5{end}" for end in (bundles.DATA, bundles.INDEX)}
    assert found[0] <= found[1] <= found[0] | stop
    expected = bundles.read(f"{local}/model.ckpt-12")
    trained = bundles.read(f"{remote}/model.ckpt-12")
    assert expected.keys() == trained.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(trained[name], array)
    logs = [read_log(f"{root}/metrics.jsonl") for root in (local, remote)]
    steps = [[record["step"] for record in log] for log in logs]
    assert steps[0] == steps[1]
    assert _without_speed(logs[0][-1]) == _without_speed(logs[1][-1])
    name = "results/pretraining_eval.json"
    assert files.read_json(f"{remote}/{name}") == files.read_json(
        f"{local}/{name}"
    )
    rows = tf.constant([[2, 7, 8, 9, 3, 0]])
    ids = {"input_ids": rows, "input_mask": tf.sign(rows)}
    ids["segment_ids"] = tf.zeros_like(rows)
    for network in ("discriminator", "generator"):
        outputs = [
            tf.saved_model.load(
                f"{root}/saved_model/{network}/ids/1"
            ).signatures["serving_default"](**ids)
            for root in (local, remote)
        ]
        tf.nest.map_structure(np.testing.assert_array_equal, *outputs)
