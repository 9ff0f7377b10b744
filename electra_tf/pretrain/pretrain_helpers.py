"""Masking: which tokens are chosen, and what replaces them.

Letters in shapes: B rows, L tokens in a row, N masked slots.

Source: paper section 2; the original's pretrain/pretrain_helpers.py.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.masking import MaskingConfig
from electra_tf.model.tensor_ops import gather_positions
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.masking_strategies import (
    STRATEGIES,
    MaskingInputs,
    with_replacement,
)
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, draw, progress


class Masked(NamedTuple):
    """A batch with some tokens masked.

    Shapes: positions [B, N], ids [B, N], weights [B, N].
    """

    inputs: Inputs
    positions: tf.Tensor
    ids: tf.Tensor
    weights: tf.Tensor


def mask(
    inputs: Inputs,
    config: MaskingConfig,
    *,
    vocabulary: Vocabulary,
    keys: RandomKeys,
) -> Masked:
    """Chooses tokens and masks them.

    Differs: positions are distinct; the original draws them with replacement
    (`original_masking`), so that it masks 13.8 % where 15 % are asked for.
    """
    num_slots = config.max_predictions_per_seq(inputs.input_ids.shape[1])
    rows = MaskingInputs(
        input_ids=inputs.input_ids,
        candidates=candidates_mask(inputs, vocabulary),
        budget=num_chosen(inputs, config, progress(keys)),
        num_slots=num_slots,
    )
    choose = STRATEGIES[config.masking_strategy]
    if config.original_masking:
        choose = with_replacement
    positions, is_real = choose(rows, config, vocabulary, keys)
    slots = tf.range(num_slots, dtype=tf.float32)
    used = tf.logical_and(slots < rows.budget, is_real)  # [B, N]
    positions = tf.where(used, positions, 0)
    ids = tf.where(used, gather_positions(inputs.input_ids, positions), 0)
    new_ids, changed = _replacement_ids(ids, config, vocabulary, keys)
    masked_ids = replace(
        inputs.input_ids, positions, new_ids, tf.logical_and(used, changed)
    )
    return Masked(
        inputs=inputs._replace(input_ids=masked_ids),
        positions=positions,
        ids=ids,
        weights=tf.cast(used, tf.float32),
    )


def num_chosen(
    inputs: Inputs, config: MaskingConfig, progress: tf.Tensor | float = 1.0
) -> tf.Tensor:
    """Returns how many tokens of each row to choose.

    Shapes: progress [B, 1]; returns [B, 1].
    """
    num_slots = config.max_predictions_per_seq(inputs.input_ids.shape[1])
    is_real = tf.cast(inputs.is_real, tf.float32)
    num_tokens = tf.reduce_sum(is_real, -1, keepdims=True)
    wanted = num_tokens * config.mask_prob_at(progress)
    return tf.clip_by_value(tf.round(wanted), 1.0, float(num_slots))


def replace(
    ids: tf.Tensor, positions: tf.Tensor, new_ids: tf.Tensor, used: tf.Tensor
) -> tf.Tensor:
    """Writes ids into some positions of each row.

    Shapes: ids [B, L], positions [B, N], new_ids [B, N], used [B, N]; returns
      [B, L].
    """
    writes = tf.cast(_hits(positions, used, ids.shape[1]), tf.int32)
    counts = tf.reduce_sum(writes, 1)  # [B, L]
    sums = tf.reduce_sum(writes * tf.expand_dims(new_ids, -1), 1)  # [B, L]
    return tf.where(counts > 0, sums // tf.maximum(counts, 1), ids)


def chosen_mask(masked: Masked) -> tf.Tensor:
    """Returns bool [B, L]: True where a slot in use chose the token."""
    length = masked.inputs.input_ids.shape[1]
    hits = _hits(masked.positions, masked.weights > 0, length)
    return tf.reduce_any(hits, 1)


def _hits(positions: tf.Tensor, used: tf.Tensor, length: int) -> tf.Tensor:
    """Returns bool [B, N, L]: True at the position of each slot in use."""
    is_there = positions[..., tf.newaxis] == tf.range(length)
    return tf.logical_and(is_there, used[..., tf.newaxis])


def candidates_mask(inputs: Inputs, vocabulary: Vocabulary) -> tf.Tensor:
    """Returns bool [B, L]: True where a token may be chosen."""
    allowed = inputs.is_real
    for special in (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id):
        allowed = tf.logical_and(allowed, inputs.input_ids != special)
    return allowed


def _replacement_ids(
    ids: tf.Tensor,
    config: MaskingConfig,
    vocabulary: Vocabulary,
    keys: RandomKeys,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ids that replace chosen tokens, int32 [B, N], and where."""
    num_slots = ids.shape[1]
    numbers = draw(keys, Purpose.MASK_CONTENT, (num_slots,))  # [B, N]
    new_ids = tf.fill(tf.shape(ids), vocabulary.mask_id)
    changed = config.mask_token_prob + config.random_token_prob
    if config.random_token_prob:
        random = draw(keys, Purpose.RANDOM_TOKENS, (num_slots,))
        random = tf.cast(random * float(vocabulary.size), tf.int32)
        new_ids = tf.where(numbers < config.mask_token_prob, new_ids, random)
    return new_ids, numbers < changed
