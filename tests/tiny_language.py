"""A language that networks of a few thousand weights learn in seconds.

Ten words count upwards from any start, modulo 10: w8 w9 w0 w1 ... Neighbours
determine a word, and a replaced word does not fit them.
"""

import dataclasses

import numpy as np
import tensorflow as tf
import tiny

from electra_tf.pretrain import evaluation
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.training import training_utils

NUM_WORDS = 10
FIRST = len(tiny.SPECIALS)
VOCABULARY = dataclasses.replace(
    tiny.VOCABULARY,
    counts=tuple(
        int(FIRST <= i < FIRST + NUM_WORDS) for i in range(tiny.VOCABULARY.size)
    ),
)
SIZES = {
    "hidden_size": 32,
    "embedding_size": 32,
    "generator_hidden_size": 0.5,
    "attention_initializer": "neighbours",
    "initializer_range": 0.15,
    "learning_rate": 2e-3,
    "adam_beta2": 0.98,
    "num_warmup_steps": 20,
    "train_batch_size": 64,
}


def rows(num_rows, seed):
    """Returns rows of [CLS] words [SEP], without padding."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, NUM_WORDS, (num_rows, 1))
    words = (start + np.arange(tiny.LENGTH)) % NUM_WORDS
    ids = FIRST + words
    ids[:, 0] = tiny.VOCABULARY.cls_id
    ids[:, -1] = tiny.VOCABULARY.sep_id
    arrays = (ids, np.ones_like(ids), np.zeros_like(ids))
    return Inputs(*(tf.constant(x.astype(np.int32)) for x in arrays))


def pairs(num_rows, seed, rows=rows):
    """Returns rows of two segments, of which the second continues the first."""
    ids, mask, segments = (x.numpy() for x in rows(num_rows, seed))
    ids[:, 7] = tiny.VOCABULARY.sep_id
    segments[:, 8:] = 1
    return Inputs(*map(tf.constant, (ids, mask, segments)))


def train(num_steps, **leaves):
    """Trains an objective.

    Returns:
      The model, and name of a metric -> its mean at each update.
    """
    leaves = {**SIZES, "num_train_steps": num_steps, **leaves}
    model = tiny.model(tiny.config(**leaves), VOCABULARY)
    return model, train_more(model, num_steps)


def train_more(model, num_steps):
    """Continues the training of a model.

    Returns:
      Name of a metric -> its mean at each update.
    """
    strategy = tf.distribute.get_strategy()
    size = model.config.training.train_batch_size
    data = tf.data.Dataset.from_tensor_slices(rows(size * num_steps, seed=1))
    block = training_utils.make_block(model, strategy)
    sums = block(iter(data.batch(size)), num_steps)
    return {name: training_utils.ratio(x) for name, x in sums.items()}


def evaluate(model):
    """Returns the metrics on held-out rows."""
    data = tf.data.Dataset.from_tensor_slices(rows(256, seed=2)).batch(64)
    return evaluation.evaluate(model, data)


def gradients(model, loss, inputs, keys):
    """Returns variable path -> largest absolute gradient of one loss; None
    where the loss does not depend on the variable."""
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        metrics = model.compute_losses(inputs, keys=keys, training=True)
        mean = metrics[loss].mean()
    found = tape.gradient(mean, [v.value for v in variables])
    return {
        v.path: None if g is None else np.abs(tf.convert_to_tensor(g)).max()
        for v, g in zip(variables, found, strict=True)
    }
