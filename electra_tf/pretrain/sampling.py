"""What is put into the masked slots: from which distribution it is drawn.

    p ~ exp(z / T), over all words, or without the right one, or the k likeliest

z are the generator's logits. Without a network z is constant, so that every
word piece is as likely as any other (uniform), or log count, so that at T = 1
words come as often as in the training records (unigram).

Letters in shapes: B rows, N masked slots, V vocabulary.

Source: paper sections 2 and 3.3 (figure 3, the unigram generator) and appendix
H (temperature, `disallow_correct`); Fan et al., 2018, "Hierarchical Neural
Story Generation" (top-k).
"""

import numpy as np
import tensorflow as tf

from electra_tf.config.objectives import ObjectiveConfig
from electra_tf.model import tensor_ops
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.random_keys import Keys, Purpose, draw
from electra_tf.util.errors import UserError


def constant_logits(generator_type: str, vocabulary: Vocabulary) -> np.ndarray:
    """Returns the logits of a generator that is no network.

    Differs: the original's uniform generator draws special tokens too, and so
    does this; a unigram generator never does.

    Args:
      generator_type: "uniform" or "unigram".
      vocabulary: of the data; for unigram with its counts.

    Returns:
      float32 [V].

    Raises:
      UserError: if counts are needed and missing.
    """
    if generator_type == "uniform":
        return np.zeros(vocabulary.size, np.float32)
    if vocabulary.counts is None:
        raise UserError(
            "generator_type=unigram needs how often each token occurs. "
            "Received: a vocabulary without counts. Take those of the data "
            "set, as run_pretraining does."
        )
    counts = np.array(vocabulary.counts)
    counts[[vocabulary.ids[token] for token in SPECIAL_TOKENS]] = 0
    logits = np.log(np.maximum(counts, 1))
    return np.where(counts > 0, logits, tensor_ops.NEVER).astype(np.float32)


def reshaped(
    logits: tf.Tensor,
    masked: Masked,
    config: ObjectiveConfig,
    temperature: float | tf.Tensor,
) -> tf.Tensor:
    """Returns the logits that are drawn from.

    Args:
      logits: float32 [B, N, V], the generator's.
      masked: the truth.
      config: whether to draw the truth, and how many words to draw from.
      temperature: T; a tensor is float32 [B, 1] or [1, 1].

    Returns:
      float32 [B, N, V].
    """
    if isinstance(temperature, tf.Tensor):
        temperature = temperature[..., tf.newaxis]
    logits = logits / temperature
    if config.disallow_correct:
        logits -= 1000.0 * tf.one_hot(masked.ids, logits.shape[-1])
    if config.top_k:
        logits = tensor_ops.keep_largest(logits, config.top_k)
    return logits


def sample(logits: tf.Tensor, config: ObjectiveConfig, keys: Keys) -> tf.Tensor:
    """Draws from softmax(logits).

    Args:
      logits: float32 [B, N, V].
      config: how.
      keys: one random key a row, or draws.

    Returns:
      int32 [B, N].
    """
    if config.original_sampling:
        draws = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:]))
        return tensor_ops.sample_with_gumbel(logits, draws)
    draws = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:2]))
    return tensor_ops.sample_from_logits(logits, draws)
