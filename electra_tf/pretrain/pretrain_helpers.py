"""Masking: which tokens are hidden, and what stands in their place.

Letters in shapes: B rows, L tokens in a row, N masked slots.

Source: paper section 2; the original's pretrain/pretrain_helpers.py.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.configure_pretraining import MaskingConfig
from electra_tf.model.tensor_ops import gather_positions
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util import seeds


class Purpose(enum.IntEnum):
    """What random numbers are drawn for: one number each, never reused."""

    MASK_POSITIONS = 0
    MASK_CONTENT = 1
    RANDOM_TOKENS = 2
    SAMPLE = 3
    GENERATOR_DROPOUT = 4
    DISCRIMINATOR_DROPOUT = 5


Keys = tf.Tensor | Mapping[Purpose, tf.Tensor]
"""uint32 [B], one random key a row; or the uniform numbers for each purpose
themselves, which repeats a computation on draws from elsewhere, no dropout."""


class Masked(NamedTuple):
    """A batch with some tokens hidden.

    Attributes:
      inputs: the batch as the generator sees it.
      positions: int32 [B, N], where tokens were chosen; 0 in unused slots.
      ids: int32 [B, N], the tokens that stood there; 0 in unused slots.
      weights: float32 [B, N], 1 in used slots, 0 in others.
    """

    inputs: Inputs
    positions: tf.Tensor
    ids: tf.Tensor
    weights: tf.Tensor


def draw(keys: Keys, purpose: Purpose, shape: tuple[int, ...]) -> tf.Tensor:
    """Draws uniform numbers for a purpose.

    Args:
      keys: one random key a row, or the numbers themselves.
      purpose: of the numbers.
      shape: of a row's numbers.

    Returns:
      float32 [B, *shape] in [0, 1).
    """
    if isinstance(keys, Mapping):
        return keys[purpose]
    return seeds.uniform(seeds.fold_in(keys, purpose), shape)


def dropout_keys(
    keys: Keys, purpose: Purpose, training: bool
) -> tf.Tensor | None:
    """Returns uint32 [B], a key a row for dropout; None where there is none."""
    if not training or isinstance(keys, Mapping):
        return None
    return seeds.fold_in(keys, purpose)


def mask(
    inputs: Inputs,
    config: MaskingConfig,
    *,
    vocabulary: Vocabulary,
    keys: Keys,
) -> Masked:
    """Chooses tokens and hides them.

    In each row k = max(1, round(mask_prob * n)) tokens are chosen, n counting
    all real tokens; [CLS], [SEP], [MASK] and padding are never chosen. Of the
    chosen, `mask_token_prob` become [MASK], `random_token_prob` any token,
    the rest stay. A row without candidates gets weight 0 throughout.

    Differs: positions are distinct; the original draws them with replacement
    (`original_masking`), so that it masks 13.8 % where 15 % are asked for.

    Args:
      inputs: a batch.
      config: how many, and what is shown instead.
      vocabulary: knows the special tokens.
      keys: one random key a row, or draws.

    Returns:
      The masked batch.
    """
    length = inputs.input_ids.shape[1]
    num_slots = config.max_predictions_per_seq(length)
    candidates = _candidates(inputs, vocabulary)  # bool [B, L]
    choose = _with_replacement if config.original_masking else _distinct
    positions, is_real = choose(candidates, num_slots, keys)
    num_tokens = tf.reduce_sum(inputs.input_mask, -1, keepdims=True)
    num_chosen = tf.clip_by_value(
        tf.round(tf.cast(num_tokens, tf.float32) * config.mask_prob),
        1.0,
        float(num_slots),
    )  # [B, 1]
    slots = tf.range(num_slots, dtype=tf.float32)
    used = tf.logical_and(slots < num_chosen, is_real)  # [B, N]
    positions = tf.where(used, positions, 0)
    ids = tf.where(used, gather_positions(inputs.input_ids, positions), 0)
    shown, changed = _content(ids, config, vocabulary, keys)
    masked_ids = replace(
        inputs.input_ids, positions, shown, tf.logical_and(used, changed)
    )
    return Masked(
        inputs=inputs._replace(input_ids=masked_ids),
        positions=positions,
        ids=ids,
        weights=tf.cast(used, tf.float32),
    )


def replace(
    ids: tf.Tensor, positions: tf.Tensor, new_ids: tf.Tensor, used: tf.Tensor
) -> tf.Tensor:
    """Writes ids into some positions of each row.

    A position written more than once gets the floor of the mean, as in the
    original; that needs positions drawn with replacement.

    Args:
      ids: int32 [B, L].
      positions: int32 [B, N].
      new_ids: int32 [B, N].
      used: bool [B, N], False for slots that write nothing.

    Returns:
      int32 [B, L].
    """
    columns = tf.range(ids.shape[1])  # [L]
    writes = tf.logical_and(
        tf.expand_dims(positions, -1) == columns, tf.expand_dims(used, -1)
    )  # [B, N, L]
    writes = tf.cast(writes, tf.int32)
    counts = tf.reduce_sum(writes, 1)  # [B, L]
    sums = tf.reduce_sum(writes * tf.expand_dims(new_ids, -1), 1)  # [B, L]
    return tf.where(counts > 0, sums // tf.maximum(counts, 1), ids)


def _candidates(inputs: Inputs, vocabulary: Vocabulary) -> tf.Tensor:
    """Returns bool [B, L]: True where a token may be chosen."""
    allowed = inputs.input_mask > 0
    for special in (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id):
        allowed = tf.logical_and(allowed, inputs.input_ids != special)
    return allowed


def _distinct(
    candidates: tf.Tensor, num_slots: int, keys: Keys
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws positions without replacement, in random order.

    Returns:
      Positions int32 [B, N], and bool [B, N]: False past the last candidate.
    """
    length = candidates.shape[1]
    draws = draw(keys, Purpose.MASK_POSITIONS, (length,))  # [B, L]
    best, positions = tf.math.top_k(
        tf.where(candidates, draws, -1.0), num_slots
    )
    return positions, best >= 0.0


def _with_replacement(
    candidates: tf.Tensor, num_slots: int, keys: Keys
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws positions independently, as the original does.

    Returns:
      Positions int32 [B, N], and bool [B, N]: False without a candidate.
    """
    ranks = tf.cumsum(tf.cast(candidates, tf.int32), axis=1)  # [B, L]
    total = ranks[:, -1:]  # [B, 1]
    draws = draw(keys, Purpose.MASK_POSITIONS, (num_slots,))  # [B, N]
    draws = tf.cast(draws * tf.cast(total, tf.float32), tf.int32)
    before = tf.expand_dims(ranks, 1) <= tf.expand_dims(draws, -1)
    positions = tf.reduce_sum(tf.cast(before, tf.int32), -1)  # [B, N]
    return positions, tf.broadcast_to(total > 0, tf.shape(positions))


def _content(
    ids: tf.Tensor,
    config: MaskingConfig,
    vocabulary: Vocabulary,
    keys: Keys,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what chosen positions show, int32 [B, N], and where to write."""
    num_slots = ids.shape[1]
    draws = draw(keys, Purpose.MASK_CONTENT, (num_slots,))  # [B, N]
    shown = tf.fill(tf.shape(ids), vocabulary.mask_id)
    changed = config.mask_token_prob + config.random_token_prob
    if config.random_token_prob:
        random = draw(keys, Purpose.RANDOM_TOKENS, (num_slots,))
        random = tf.cast(random * float(vocabulary.size), tf.int32)
        shown = tf.where(draws < config.mask_token_prob, shown, random)
    return shown, draws < changed
