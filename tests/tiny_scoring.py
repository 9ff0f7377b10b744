"""Tiny pre-training runs on disk, and reference scores, to test scoring."""

import pathlib

import numpy as np
import tensorflow as tf
import tiny

from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util.flags import save_config

STEP = 7


def write_run(directory, **leaves):
    """Writes a run with random weights; returns its model and directory."""
    leaves = {"num_hidden_layers": 1, "initializer_range": 0.3, **leaves}
    config = tiny.config(directory, **leaves)
    model = tiny.model(config)
    model_dir = pathlib.Path(config.run.model_dir)
    model_dir.mkdir(parents=True)
    save_config(model_dir / "config.json", config)
    (directory / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    model.optimizer.iterations.assign(STEP)
    variables = tiny.checkpoint_variables(model)
    Checkpoints(model_dir, variables).save(STEP)
    return model, model_dir


def ids_of(text):
    """Returns the ids of words like w3 and W3, with [CLS] and [SEP]."""
    inner = [5 + int(word[1:]) for word in text.lower().split()]
    return np.array([2, *inner, 3], np.int32)


def inputs_of(ids):
    ids = tf.constant(ids[None], tf.int32)
    return Inputs(ids, tf.ones_like(ids), tf.zeros_like(ids))


def mlm(model, ids, places=None):
    """Returns log-probabilities [places, V], masking one token at a time."""
    table = tf.constant(model.generator.embeddings.word_embeddings)
    found = []
    for place in places or range(1, len(ids) - 1):
        masked = ids.copy()
        masked[place] = 4
        states = model.generator(*inputs_of(masked)).sequence_output
        logits = model.generator_predictions(states, table)
        logits = logits[0, place].numpy().astype(np.float64)
        found.append(logits - np.log(np.exp(logits).sum()))
    return np.array(found)
