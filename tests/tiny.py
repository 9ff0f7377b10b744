"""A tiny experiment that tests share: configuration, vocabulary, batches."""

import dataclasses

import numpy as np
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.config.objectives import OBJECTIVES
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS as SPECIALS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.training.updates import checkpoint_variables
from electra_tf.util import flags, seeds

VOCABULARY = Vocabulary(SPECIALS + tuple(f"w{i}" for i in range(55)))
COUNTED = dataclasses.replace(
    VOCABULARY, counts=(9, 8, 7, 6, 5, *((7 * i) % 11 for i in range(55)))
)
"""The same vocabulary, with counts of its tokens in training records."""

BERT = BertConfig(
    vocab_size=VOCABULARY.size,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    embedding_size=8,
    max_position_embeddings=40,
    initializer_range=0.4,
)

LENGTH = 16
KEYS = seeds.row_keys(0, tf.constant(0), tf.range(8))
"""Random keys of a batch of 8 rows."""

TWO_STAGE = {
    "objective": "two_stage",
    "generator_sharing": "none",
    "generator_hidden_size": 1.0,
    "generator_num_attention_heads": 2,
    "embedding_size": 16,
}
VARIANTS = {name: {"objective": name} for name in OBJECTIVES} | {
    "coco_lm": {"objective": "coco_lm", "contrast_group": 2},
    "mc_bert": {
        "objective": "mc_bert",
        "selection_weight": 2.0,
        "num_candidates": 5,
    },
    "script": {"objective": "script", "disc_weight": 50.0},
    "teams": {"objective": "teams", "disc_weight": 50.0},
    "two_stage": TWO_STAGE,
    "fast_electra": {"objective": "fast_electra", "generator_sharing": "none"},
    "electra of a frozen generator": {
        "freeze_generator": True,
        "generator_sharing": "gradient_disentangled",
    },
    "electra of a uniform generator": {"generator_type": "uniform"},
    "electra of a unigram generator": {
        "generator_type": "unigram",
        "temperature": 2.0,
        "temperature_end": 1.0,
        "top_k": 20,
    },
    "electra of masked spans": {
        "masking_strategy": "span",
        "mask_prob": 0.1,
        "mask_prob_end": 0.3,
    },
    "electra of two towers": {"generator_type": "two_tower"},
    "electra that shares words": {"generator_sharing": "token_embeddings"},
    "electra disentangled": {"generator_sharing": "gradient_disentangled"},
    "electra as the original": {
        "original_behaviour": ("masking", "sampling", "clip_norm"),
    },
    "adversarial by a relaxed sample": {
        "objective": "adversarial",
        "adversarial_method": "gumbel",
        "adversarial_weight": 0.5,  # at 1 the generator has no loss term
    },
}
"""Each objective with its defaults, and options that change the graph."""


def config(data_dir="unused", **leaves):
    """Returns a configuration of a few thousand weights."""
    values = {
        "data_dir": str(data_dir),
        "model_name": "tiny",
        "max_seq_length": LENGTH,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "embedding_size": 8,
        "generator_hidden_size": 0.5,
        "max_position_embeddings": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "train_batch_size": 8,
        "num_train_steps": 20,
        "num_warmup_steps": 4,
        "learning_rate": 1e-3,
        **leaves,
    }
    assert values.keys() <= {
        x.field.name for x in flags.leaves(PretrainingConfig)
    }
    return flags.build(PretrainingConfig, values)


def packed_batch(num_rows=8, length=LENGTH, seed=0):
    """Returns rows of 2 to 4 documents, [CLS] words [SEP] each, and padding."""
    rng = np.random.default_rng(seed)
    ids, numbers, segments = np.zeros((3, num_rows, length), np.int32)
    for row in range(num_rows):
        end, num_documents = 0, rng.integers(2, 5)
        for number in range(1, num_documents + 1):
            size = rng.integers(3, 1 + length // num_documents)
            start, end = end, end + size
            ids[row, start:end] = rng.integers(5, VOCABULARY.size, end - start)
            ids[row, [start, end - 1]] = VOCABULARY.cls_id, VOCABULARY.sep_id
            numbers[row, start:end] = number
            segments[row, (start + end) // 2 : end] = 1
    return Inputs(*map(tf.constant, (ids, numbers, segments)))


def model(config, vocabulary=VOCABULARY):
    strategy = tf.distribute.get_strategy()
    return pretraining_run.make_model(config, vocabulary, strategy)


def forward(model, inputs, keys=KEYS):
    """Returns a forward pass without dropout, and its losses and metrics."""
    return (
        model.forward(inputs, keys=keys, training=False),
        model.compute_losses(inputs, keys=keys, training=False),
    )


def total_loss(model, metrics):
    """Returns the weighted sum of the losses' means, float32 scalar."""
    weights = model.loss_weights
    return tf.add_n([metrics[n].mean() * x for n, x in weights.items()])


def assert_means(terms, expected, rtol=1e-5):
    """Compares the means of losses and metrics with values, by name."""
    for name, value in expected.items():
        np.testing.assert_allclose(
            terms[name].mean(), value, rtol=rtol, err_msg=name
        )


def softmax_nats(logits, ids):
    """Returns -log softmax(logits) at ids, by its formula in float64."""
    logits = np.asarray(logits, np.float64)
    at = np.take_along_axis(logits, np.asarray(ids)[..., None], -1)[..., 0]
    return np.log(np.exp(logits).sum(-1)) - at


def sigmoid_nats(logits, labels):
    """Returns the binary cross-entropy by its formula in float64."""
    p = 1 / (1 + np.exp(-np.asarray(logits, np.float64)))
    return -np.log(np.where(np.asarray(labels) > 0, p, 1 - p))


def arrays(model):
    variables = checkpoint_variables(model)
    return {name: variable.numpy() for name, variable in variables.items()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def replicas(num_replicas):
    if num_replicas == 1:
        return tf.distribute.get_strategy()
    # Collectives cannot change their number of devices within a process.
    return tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(num_replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


def candidates(inputs):
    """Returns bool [B, L]: all tokens but [CLS], [SEP], [MASK], padding."""
    is_special = np.isin(inputs.input_ids.numpy(), [2, 3, 4])
    return (inputs.input_mask.numpy() > 0) & ~is_special


def chosen(masked):
    """Returns bool [B, L]: tokens at the positions of slots in use."""
    found = np.zeros(masked.inputs.input_ids.shape, bool)
    rows, slots = np.nonzero(masked.weights.numpy())
    found[rows, masked.positions.numpy()[rows, slots]] = True
    return found


def batch(num_rows=8, length=LENGTH, seed=0):
    """Returns rows of [CLS] words [SEP] padding, of various lengths."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, VOCABULARY.size, (num_rows, length))
    sizes = rng.integers(5, length + 1, num_rows)
    sizes[0] = length
    columns = np.arange(length)
    ids[:, 0] = VOCABULARY.cls_id
    ids[columns == sizes[:, None] - 1] = VOCABULARY.sep_id
    mask = columns < sizes[:, None]
    segments = mask & (columns > sizes[:, None] // 2)
    arrays = (ids * mask, mask, segments)
    return Inputs(*(tf.constant(x.astype(np.int32)) for x in arrays))
