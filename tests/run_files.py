"""Runs a pre-training in this process, stops it, and compares its files."""

import json
import os
import signal

import keras
import tensorflow as tf
import tiny

from electra_tf.pretrain import run as pretraining_run


class Stop(keras.callbacks.Callback):
    """Sends SIGTERM at a step."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if batch >= self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def run(data_dir, name, callbacks=(), **leaves):
    """Trains on `corpus.txt` of a data directory, unless told another one."""
    corpus = (str(data_dir / "corpus.txt"),)
    leaves = {"model_name": name, "corpus": corpus, **leaves}
    pretraining_run.run(tiny.config(data_dir, **leaves), callbacks)


def tensors(model_dir, step):
    """Returns name -> array of the checkpoint of a step."""
    reader = tf.train.load_checkpoint(str(model_dir / f"model.ckpt-{step}"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def log(model_dir):
    """Returns the logged metrics of a run; checks and removes its speeds."""
    path = model_dir / "metrics.jsonl"
    lines = path.read_text().splitlines(True) if path.exists() else []
    records = [json.loads(line) for line in lines if line[-1] == "\n"]
    for record in records:
        for kind in ("sequences_per_second", "tokens_per_second"):
            assert record.pop(kind) > 0
    return records


def assert_same_end(model_dir, expected_dir, step):
    """Compares two runs: weights, slots and step bit for bit, and metrics."""
    tiny.assert_same(tensors(model_dir, step), tensors(expected_dir, step))
    assert log(model_dir) == log(expected_dir)
