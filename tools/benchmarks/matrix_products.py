"""Counts the FLOPs of an update's matrix products, and measures their ceiling.

The ceiling is the speed of one large matrix product on the same cores; an
update's FLOPs divided by its time are a share of it.
"""

import time

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig

_SIDES = (2048, 4096)
_NUM_ROUNDS = 5


def encoder_flops(bert: BertConfig, length: int) -> float:
    """Returns the floating-point operations of a forward pass, per token."""
    hidden, wide = bert.hidden_size, bert.intermediate_size
    block = 8 * hidden**2 + 4 * hidden * wide + 4 * hidden * length
    projection = 2 * bert.embedding_size * hidden
    if bert.embedding_size == hidden:
        projection = 0
    return projection + bert.num_hidden_layers * block


def update_flops(config: PretrainingConfig, num_words: int) -> float:
    """Returns the floating-point operations of ELECTRA's update, per
    sequence."""
    length = config.corpus.max_seq_length
    slots = config.masking.max_predictions_per_seq(length)
    discriminator = config.model.discriminator(num_words)
    generator = config.model.generator(num_words)
    embedding = generator.embedding_size
    head = 2 * generator.hidden_size * embedding + 2 * embedding * num_words
    forward = (
        length * encoder_flops(discriminator, length)
        + length * 2 * discriminator.hidden_size**2
        + length * encoder_flops(generator, length)
        + slots * head
    )
    return 3 * forward


def ceiling(precision: str) -> float:
    """Measures TensorFlow's matrix product on large square matrices."""
    import tensorflow as tf

    product = tf.function(tf.matmul)
    best = 0.0
    for side in _SIDES:
        pair = tf.random.normal([2, side, side])
        left, right = tf.unstack(tf.cast(pair, precision))
        product(left, right)  # traces
        for _ in range(_NUM_ROUNDS):
            start = time.perf_counter()
            product(left, right)
            best = max(best, 2 * side**3 / (time.perf_counter() - start))
    return best
