"""Sampling from generators, which may be networks or constants.

A sample for a masked slot is drawn from

    p ~ exp(z / T), over all words, all but the right one, or the k likeliest

z are a network's logits, constant (uniform) or log counts (unigram). Candidates
for a choice among several words are drawn without replacement.

Letters in shapes: B rows, L tokens in a row, N masked slots, M in all rows, E
embedding, V vocabulary, K candidates.

Source: paper sections 2 and 3.3 and appendix H; Fan et al., 2018, "Hierarchical
Neural Story Generation" (top-k).
"""

import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import tensor_ops, vocabulary_softmax, xla_kernels
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, draw
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

_BLOCK = 128  # columns of logits summed at a time


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
    """Returns the logits to sample from, [B, N, V]; temperature [B, 1]."""
    if isinstance(temperature, tf.Tensor):
        temperature = temperature[..., tf.newaxis]
    logits = logits / temperature
    if config.objective.disallow_correct:
        # The original's penalty is too small at a temperature of 0.001.
        is_original = "sampling" in config.original_behaviour
        penalty = -1000.0 if is_original else tensor_ops.ZERO_PROB_LOGIT
        logits += penalty * tf.one_hot(masked.ids, logits.shape[-1])
    if config.objective.top_k:
        logits = keep_largest(logits, config.objective.top_k)
    return logits


def sample(
    logits: tf.Tensor, keys: RandomKeys, *, original: bool = False
) -> tf.Tensor:
    """Draws from softmax(logits): logits [B, N, V] -> [B, N]."""
    if original:  # inexact by the constants in its logarithms
        uniform = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:]))
        gumbel = -tf.math.log(-tf.math.log(uniform + 1e-9) + 1e-9)
        return tf.argmax(tf.nn.softmax(logits + gumbel), -1, tf.int32)
    uniform = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:2]))
    return sample_from_logits(logits, uniform)


def keep_largest(logits: tf.Tensor, count: int) -> tf.Tensor:
    """Gives all but the largest logits, [B, N, V], probability 0."""
    count = min(count, logits.shape[-1])
    least = tf.math.top_k(logits, count).values[..., -1:]  # [B, N, 1]
    return tf.where(logits >= least, logits, tensor_ops.ZERO_PROB_LOGIT)


def sample_from_logits(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Inverts the distribution function: [B, N, V], [B, N] -> ids [B, N]."""
    rows = tensor_ops.rows_of(tf.stop_gradient(logits))  # [M, V]
    largest = tf.reduce_max(rows, -1, keepdims=True)
    sums = _block_sums(rows, largest)  # [M, V/128]
    ends = _cumulative_sum(sums)
    target = tf.reshape(uniform, [-1, 1]) * ends[:, -1:]
    block = _find(sums, ends, target)  # [M]
    starts = tf.pad(ends, [[0, 0], [1, 0]])
    low, high = (
        tensor_ops.gather_positions(x, block[:, tf.newaxis])
        for x in (starts, ends)
    )  # [M, 1]
    inner = _block_weights(rows, largest, block)  # [M, 128]
    inner_ends = _cumulative_sum(inner)
    # A share of the block, as products may be rounded (TF32, bfloat16): what
    # the block's sum has over that of its words would fall on the last word.
    rest = tf.math.divide_no_nan(target - low, high - low) * inner_ends[:, -1:]
    index = block * _BLOCK + _find(inner, inner_ends, rest)
    return tf.reshape(index, tf.shape(uniform))


@xla_kernels.compiled
def _block_sums(logits: tf.Tensor, largest: tf.Tensor) -> tf.Tensor:
    """Sums exp(logits - largest) in blocks: float32 [M, V] -> [M, V/128]."""
    weights = tf.exp(logits - largest)
    whole = logits.shape[-1] // _BLOCK * _BLOCK
    num_rows, num_blocks = tensor_ops.shape_of(logits)[0], whole // _BLOCK
    blocks = tf.reshape(weights[:, :whole], [num_rows, num_blocks, _BLOCK])
    sums = tf.reduce_sum(blocks, -1)
    if whole == logits.shape[-1]:
        return sums
    last = tf.reduce_sum(weights[:, whole:], -1, keepdims=True)
    return tf.concat([sums, last], -1)


def _block_weights(
    logits: tf.Tensor, largest: tf.Tensor, block: tf.Tensor
) -> tf.Tensor:
    """Returns exp(logits - largest) of one block per row, 0 past V."""
    columns = block[:, tf.newaxis] * _BLOCK + tf.range(_BLOCK)
    last = logits.shape[-1] - 1
    picked = tensor_ops.gather_positions(logits, tf.minimum(columns, last))
    return tf.where(columns <= last, tf.exp(picked - largest), 0.0)


def gumbel_noise(uniform: tf.Tensor) -> tf.Tensor:
    """Converts uniform to Gumbel noise: argmax(logits + noise) is a sample."""
    least = 2.0**-25  # half of the smallest nonzero draw
    return -tf.math.log(-tf.math.log(tf.maximum(uniform, least)))


def _cumulative_sum(x: tf.Tensor) -> tf.Tensor:
    size = x.shape[-1]
    return tf.matmul(x, tf.linalg.band_part(tf.ones([size, size]), 0, -1))


def _find(x: tf.Tensor, ends: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Finds the first column whose cumulative sum is over the target, [M]."""
    size = x.shape[-1]
    columns, is_possible = tf.range(size), x > 0
    is_over = tf.logical_and(ends > target, is_possible)
    first = tf.reduce_min(tf.where(is_over, columns, size), -1)
    last = tf.reduce_max(tf.where(is_possible, columns, 0), -1)
    return tf.minimum(first, last)


def distinct_for_all_tokens(
    x: tf.Tensor,  # [B, L, E]
    table: tf.Tensor,  # [V, E]
    bias: tf.Tensor,  # [V]
    *,
    excluded: tf.Tensor,  # [B, L]
    num_words: int,
    keys: tf.Tensor | None = None,  # [B, L]
) -> tf.Tensor:
    """Finds distinct words other than `excluded` for every token, [B, L, K].

    Without keys they are the likeliest words.
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
    return gumbel_noise(seeds.uniform(keys, (width,)))


_noise_kernel = tf.function(_draw_noise, jit_compile=True, autograph=False)
