"""Generators: their networks, and sampling from them.

A sample for a masked slot is drawn from

    p ~ exp(z / T), over all words, all but the right one, or the k likeliest

z are the generator's logits. Without a network z is constant, so that all word
pieces are equally likely (uniform), or log count, so that at T = 1 words are as
frequent as in the training records (unigram). Candidates for a choice among
several words are drawn without replacement.

Letters in shapes: B rows, L tokens in a row, N masked slots, E embedding, V
vocabulary, K candidates.

Source: paper sections 2 and 3.3 (figure 3, the unigram generator) and appendix
H (temperature, `disallow_correct`); Fan et al., 2018, "Hierarchical Neural
Story Generation" (top-k).
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from electra_tf.config.objectives import ObjectiveConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import (
    sampling,
    tensor_ops,
    vocabulary_softmax,
    xla_kernels,
)
from electra_tf.model.layers import POLICIES
from electra_tf.model.modeling import BertModel
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.shared_embeddings import TokenSharingEmbeddings
from electra_tf.model.tokenization import Vocabulary
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, draw
from electra_tf.util import seeds
from electra_tf.util.errors import UserError


def make_encoder(
    config: PretrainingConfig, vocab_size: int, main: BertModel | None
) -> BertModel:
    """Makes a generator that fills masks."""
    sharing, tables = config.model.generator_sharing, None
    bert = config.model.generator(vocab_size)
    if sharing == "all":
        return main
    if sharing == "embeddings":
        tables = main.embeddings
    if sharing == "token_embeddings":
        words = main.embeddings.word_embeddings
        tables = TokenSharingEmbeddings(bert, words)
    if sharing == "token_and_position_embeddings":
        words = main.embeddings.word_embeddings
        positions = main.embeddings.position_embeddings
        tables = TokenSharingEmbeddings(bert, words, positions)
    made = BertModel(
        bert,
        "generator",
        tables,
        is_packed=config.corpus.is_packed,
        dtype=POLICIES[config.training.precision],
    )
    made.build((None, None))
    return made


def make_towers(
    config: PretrainingConfig, vocab_size: int, main: BertModel
) -> TwoTowerModel:
    """Makes two towers; by default all read the same embeddings."""
    is_shared = config.model.generator_sharing == "embeddings"
    return TwoTowerModel(
        config.model.generator(vocab_size),
        main.embeddings if is_shared else None,
        is_packed=config.corpus.is_packed,
        dtype=POLICIES[config.training.precision],
    )


def constant_logits(generator_type: str, vocabulary: Vocabulary) -> np.ndarray:
    """Returns the logits of a generator that is not a network.

    Differs: the original's uniform generator draws special tokens too, and so
    does this; a unigram generator never does.

    Shapes: returns [V].
    """
    if generator_type == "uniform":
        return np.zeros(vocabulary.size, np.float32)
    if vocabulary.counts is None:
        raise UserError(
            "generator_type=unigram needs the counts of the tokens. Received: "
            "a vocabulary without counts. Use those of the data set, as "
            "run_pretraining does."
        )
    counts = np.array(vocabulary.counts)
    counts[[vocabulary.ids[token] for token in SPECIAL_TOKENS]] = 0
    logits = np.log(np.maximum(counts, 1))
    return np.where(counts > 0, logits, tensor_ops.ZERO_PROB_LOGIT).astype(
        np.float32
    )


def sampling_logits(
    logits: tf.Tensor,
    masked: Masked,
    config: ObjectiveConfig,
    temperature: float | tf.Tensor,
) -> tf.Tensor:
    """Returns the logits to sample from.

    Shapes: logits [B, N, V], temperature [B, 1]; returns [B, N, V].
    """
    if isinstance(temperature, tf.Tensor):
        temperature = temperature[..., tf.newaxis]
    logits = logits / temperature
    if config.disallow_correct:
        # The original's penalty is too small at a temperature of 0.001.
        least = (
            -1000.0 if config.original_sampling else tensor_ops.ZERO_PROB_LOGIT
        )
        logits += least * tf.one_hot(masked.ids, logits.shape[-1])
    if config.top_k:
        logits = sampling.keep_largest(logits, config.top_k)
    return logits


def sample(
    logits: tf.Tensor, config: ObjectiveConfig, keys: RandomKeys
) -> tf.Tensor:
    """Draws from softmax(logits): logits [B, N, V] -> [B, N]."""
    if config.original_sampling:
        numbers = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:]))
        return sampling.sample_with_gumbel(logits, numbers)
    numbers = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:2]))
    return sampling.sample_from_logits(logits, numbers)


def draw_distinct(
    logits: tf.Tensor, excluded: tf.Tensor, uniform: tf.Tensor, num_words: int
) -> tf.Tensor:
    """Draws distinct words other than a given one."""
    return _largest(
        logits + sampling.gumbel_noise(uniform), excluded, num_words
    )


def distinct_for_all_tokens(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    *,
    excluded: tf.Tensor,
    num_words: int,
    keys: tf.Tensor | None = None,
) -> tf.Tensor:
    """Finds distinct words other than a given one for every token.

    Shapes: x [B, L, E], table [V, E], bias [V], excluded [B, L], keys [B, L];
      returns [B, L, K].
    """
    kernel = tf.transpose(table)  # [E, V]

    def find(x: tf.Tensor, excluded: tf.Tensor, *keys: tf.Tensor) -> tf.Tensor:
        logits = tensor_ops.linear(x, kernel, bias)  # [M, V]
        for key in keys:
            logits += _noise(key, logits.shape[-1])
        return _largest(logits, excluded, num_words)

    tokens = (x, excluded) if keys is None else (x, excluded, keys)
    block = max(1, vocabulary_softmax.MAX_LOGITS // table.shape[0])
    return _in_blocks(find, *tokens, block=block)


def keep_mask(words: tf.Tensor, unwanted: tf.Tensor) -> tf.Tensor:
    """Returns which of several words to keep if one has to be dropped."""
    is_unwanted = words == unwanted[..., tf.newaxis]
    is_missing = ~tf.reduce_any(is_unwanted, -1, keepdims=True)
    is_last = tf.range(words.shape[-1]) == words.shape[-1] - 1
    return ~(is_unwanted | (is_missing & is_last))


def _largest(
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


def _in_blocks(
    function: Callable[..., tf.Tensor], *inputs: tf.Tensor, block: int
) -> tf.Tensor:
    """Applies a function to one block of tokens after the other.

    Shapes: function [M]; returns [B, L, K].
    """
    batch, length = tensor_ops.shape_of(inputs[0])[:2]
    size = batch * length
    block = tf.maximum(1, tf.minimum(block, size))

    def split(x: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(tf.stop_gradient(x), [-1, *x.shape[2:]])
        return vocabulary_softmax.split(rows, block)

    found = tf.map_fn(
        lambda parts: function(*parts),
        tuple(map(split, inputs)),
        parallel_iterations=1,
        fn_output_signature=tf.int32,
    )  # [blocks, M, K]
    num_words = found.shape[-1]
    found = tf.reshape(found, [-1, num_words])[:size]
    return tf.reshape(found, [batch, length, num_words])
