"""Sampling from generators, which may be networks or constants.

A sample for a masked slot is drawn from

    p ~ exp(z / T), over all words, all but the right one, or the k likeliest

z are a network's logits, constant (uniform) or log counts (unigram). Candidates
for a choice among several words are drawn without replacement.

Letters in shapes: B rows, L tokens in a row, N masked slots, E embedding, V
vocabulary, K candidates.

Source: paper sections 2 and 3.3 and appendix H; Fan et al., 2018, "Hierarchical
Neural Story Generation" (top-k).
"""

import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import (
    sampling,
    tensor_ops,
    vocabulary_softmax,
    xla_kernels,
)
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, draw
from electra_tf.util import seeds
from electra_tf.util.errors import UserError


def constant_logits(generator_type: str, vocabulary: Vocabulary) -> np.ndarray:
    """Returns the logits, [V], of a generator that is not a network.

    As in the original, a uniform generator draws special tokens too; a unigram
    generator never does.
    """
    if generator_type == "uniform":
        return np.zeros(vocabulary.size, np.float32)
    if vocabulary.counts is None:
        raise UserError("generator_type=unigram needs counts of the tokens.")
    counts = np.array(vocabulary.counts)
    counts[[vocabulary.ids[token] for token in SPECIAL_TOKENS]] = 0
    logits = np.log(np.maximum(counts, 1))
    return np.where(counts > 0, logits, tensor_ops.ZERO_PROB_LOGIT).astype(
        np.float32
    )


def sampling_logits(
    logits: tf.Tensor,
    masked: Masked,
    config: PretrainingConfig,
    temperature: float | tf.Tensor,
) -> tf.Tensor:
    """Returns the logits to sample from.

    Shapes: logits [B, N, V], temperature [B, 1]; returns [B, N, V].
    """
    if isinstance(temperature, tf.Tensor):
        temperature = temperature[..., tf.newaxis]
    logits = logits / temperature
    if config.objective.disallow_correct:
        # The original's penalty is too small at a temperature of 0.001.
        is_original = "sampling" in config.original_behaviour
        penalty = -1000.0 if is_original else tensor_ops.ZERO_PROB_LOGIT
        logits += penalty * tf.one_hot(masked.ids, logits.shape[-1])
    if config.objective.top_k:
        logits = sampling.keep_largest(logits, config.objective.top_k)
    return logits


def sample(
    logits: tf.Tensor, keys: RandomKeys, *, original: bool = False
) -> tf.Tensor:
    """Draws from softmax(logits): logits [B, N, V] -> [B, N]."""
    if original:
        numbers = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:]))
        return sampling.sample_with_gumbel(logits, numbers)
    numbers = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:2]))
    return sampling.sample_from_logits(logits, numbers)


def distinct_for_all_tokens(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    *,
    excluded: tf.Tensor,
    num_words: int,
    keys: tf.Tensor | None = None,
) -> tf.Tensor:
    """Finds distinct words other than a given one for every token, in blocks.

    Without keys they are the likeliest words.

    Shapes: x [B, L, E], table [V, E], bias [V], excluded [B, L], keys [B, L];
      returns [B, L, K].
    """
    kernel = tf.transpose(table)  # [E, V]
    batch, length = tensor_ops.shape_of(x)[:2]
    size = batch * length
    block = max(1, vocabulary_softmax.MAX_LOGITS // table.shape[0])
    block = tf.maximum(1, tf.minimum(block, size))  # M tokens

    def split(x: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(tf.stop_gradient(x), [-1, *x.shape[2:]])
        return vocabulary_softmax.split(rows, block)

    def find(parts: tuple[tf.Tensor, ...]) -> tf.Tensor:
        x, excluded, *keys = parts
        logits = tensor_ops.linear(x, kernel, bias)  # [M, V]
        for key in keys:
            logits += _noise(key, logits.shape[-1])
        return largest_others(logits, excluded, num_words)

    tokens = (x, excluded) if keys is None else (x, excluded, keys)
    words = tf.map_fn(
        find,
        tuple(map(split, tokens)),
        parallel_iterations=1,
        fn_output_signature=tf.int32,
    )  # [blocks, M, K]
    words = tf.reshape(words, [-1, num_words])[:size]
    return tf.reshape(words, [batch, length, num_words])


def largest_others(
    scores: tf.Tensor, excluded: tf.Tensor, num_words: int
) -> tf.Tensor:
    """Returns the words with the largest scores except `excluded`, [..., K]."""
    best = tf.math.top_k(scores, num_words + 1).indices  # [..., K + 1]
    is_excluded = tf.cast(best == excluded[..., tf.newaxis], tf.int32)
    from_here = tf.cumsum(is_excluded, -1)[..., :-1] > 0  # from `excluded` on
    return tf.where(from_here, best[..., 1:], best[..., :-1])


def _noise(keys: tf.Tensor, width: int) -> tf.Tensor:
    """Draws Gumbel noise: uint32 [M] -> float32 [M, width]."""
    is_large = width >= xla_kernels.MIN_SIZE // 8
    return (_noise_kernel if is_large else _draw_noise)(keys, width)


def _draw_noise(keys: tf.Tensor, width: int) -> tf.Tensor:
    return sampling.gumbel_noise(seeds.uniform(keys, (width,)))


_noise_kernel = tf.function(_draw_noise, jit_compile=True, autograph=False)
