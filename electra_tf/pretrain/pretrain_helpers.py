"""Masking: which tokens are chosen, and what replaces them.

A strategy returns distinct positions of candidates; the first `budget` of them
are masked. To add one: one function, one line.

Strategies that mask neighbouring tokens together cut each row into groups, put
the groups in random order and take from them until the budget is used. The last
group loses its right end, so that the first tokens of a row are masked more
often: by spans 17.4 % against 14.4 % in the middle of rows of 64.

Letters in shapes: B rows, L tokens in a row, N masked slots, V vocabulary.

Source: paper section 2 and appendix H (strategic masking); the original's
pretrain/pretrain_helpers.py; ALBERT (n-grams); SpanBERT.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.objectives import MaskingConfig
from electra_tf.model.tensor_ops import gather_positions
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import (
    Purpose,
    RandomKeys,
    draw,
    progress,
)
from electra_tf.util.errors import UserError

_NGRAM_SHARES = [1 / n for n in (1, 2, 3)]
_SPAN_SHARES = [0.8**n for n in range(1, 11)]  # 1 piece in 5 ends one
_UNIGRAM_ALPHA = 0.5  # exponent of the counts


class Masked(NamedTuple):
    """A batch with some tokens masked."""

    inputs: Inputs
    positions: tf.Tensor  # [B, N]
    ids: tf.Tensor  # [B, N]
    weights: tf.Tensor  # [B, N]


class Rows(NamedTuple):
    """Rows to choose from."""

    input_ids: tf.Tensor  # [B, L]
    candidates: tf.Tensor  # [B, L]
    budget: tf.Tensor  # [B, 1]
    num_slots: int
    vocabulary: Vocabulary
    keys: RandomKeys

    def draw(self, *shape: int) -> tf.Tensor:
        """Draws the uniform numbers that choose, [B, *shape]."""
        return draw(self.keys, Purpose.MASK_POSITIONS, shape)


def mask(
    inputs: Inputs,
    config: MaskingConfig,
    *,
    vocabulary: Vocabulary,
    keys: RandomKeys,
    original: bool = False,
) -> Masked:
    """Chooses tokens and masks them.

    Differs: positions are distinct unless `original`, which draws them with
    replacement and so masks 13.8 % where 15 % are asked for.
    """
    num_slots = config.max_predictions_per_seq(inputs.input_ids.shape[1])
    rows = Rows(
        input_ids=inputs.input_ids,
        candidates=candidates_mask(inputs, vocabulary),
        budget=num_chosen(inputs, config, progress(keys)),
        num_slots=num_slots,
        vocabulary=vocabulary,
        keys=keys,
    )
    choose = STRATEGIES[config.masking_strategy]
    if original:
        choose = with_replacement
    positions, is_real = choose(rows)
    slots = tf.range(num_slots, dtype=tf.float32)
    used = tf.logical_and(slots < rows.budget, is_real)  # [B, N]
    positions = tf.where(used, positions, 0)
    ids = tf.where(used, gather_positions(inputs.input_ids, positions), 0)
    numbers = draw(keys, Purpose.MASK_CONTENT, (num_slots,))  # [B, N]
    new_ids = tf.fill(tf.shape(ids), vocabulary.mask_id)
    if config.random_token_prob:
        random = draw(keys, Purpose.RANDOM_TOKENS, (num_slots,))
        random = tf.cast(random * float(vocabulary.size), tf.int32)
        new_ids = tf.where(numbers < config.mask_token_prob, new_ids, random)
    changed = numbers < config.mask_token_prob + config.random_token_prob
    masked_ids = replace(inputs.input_ids, positions, new_ids, used & changed)
    return Masked(
        inputs=inputs._replace(input_ids=masked_ids),
        positions=positions,
        ids=ids,
        weights=tf.cast(used, tf.float32),
    )


def num_chosen(
    inputs: Inputs, config: MaskingConfig, progress: tf.Tensor | float = 1.0
) -> tf.Tensor:
    """Returns the number of tokens to choose: progress [B, 1] -> [B, 1]."""
    num_slots = config.max_predictions_per_seq(inputs.input_ids.shape[1])
    is_real = tf.cast(inputs.is_real, tf.float32)
    num_tokens = tf.reduce_sum(is_real, -1, keepdims=True)
    wanted = num_tokens * config.mask_prob_at(progress)
    return tf.clip_by_value(tf.round(wanted), 1.0, float(num_slots))


def candidates_mask(inputs: Inputs, vocabulary: Vocabulary) -> tf.Tensor:
    """Returns bool [B, L]: True where a token may be chosen."""
    allowed = inputs.is_real
    for special in (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id):
        allowed = tf.logical_and(allowed, inputs.input_ids != special)
    return allowed


def replace(
    ids: tf.Tensor, positions: tf.Tensor, new_ids: tf.Tensor, used: tf.Tensor
) -> tf.Tensor:
    """Writes new ids [B, N] where slots [B, N] are used; returns [B, L].

    Two writes to a position are averaged, as in the original.
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


ChosenTokens = tuple[tf.Tensor, tf.Tensor]
"""Positions in the order in which they are chosen, [B, N], and which are
real."""


def uniform(rows: Rows) -> ChosenTokens:
    """Chooses single tokens, each equally likely, in random order."""
    numbers = rows.draw(rows.candidates.shape[1])  # [B, L]
    return _largest(rows, numbers, -1.0)


def unigram(rows: Rows) -> ChosenTokens:
    """Chooses single tokens, rare ones sooner."""
    counts = rows.vocabulary.counts
    if counts is None:
        raise UserError("masking_strategy=unigram needs counts of the tokens.")
    weights = -_UNIGRAM_ALPHA * np.log(np.maximum(counts, 1))
    numbers = rows.draw(rows.candidates.shape[1])  # [B, L]
    gumbel = -tf.math.log(-tf.math.log1p(-numbers))
    weights = tf.constant(weights, tf.float32)
    return _largest(rows, tf.gather(weights, rows.input_ids) + gumbel, -np.inf)


def with_replacement(rows: Rows) -> ChosenTokens:
    """Chooses single tokens independently, as the original does.

    Differs: unlike in other strategies, a token may be chosen more than once.
    """
    ranks = tf.cumsum(tf.cast(rows.candidates, tf.int32), axis=1)  # [B, L]
    total = ranks[:, -1:]  # [B, 1]
    numbers = rows.draw(rows.num_slots)  # [B, N]
    numbers = tf.cast(numbers * tf.cast(total, tf.float32), tf.int32)
    before = tf.expand_dims(ranks, 1) <= tf.expand_dims(numbers, -1)
    positions = tf.reduce_sum(tf.cast(before, tf.int32), -1)  # [B, N]
    return positions, tf.broadcast_to(total > 0, tf.shape(positions))


def whole_word(rows: Rows) -> ChosenTokens:
    """Chooses words, all pieces of each; skips words that do not fit."""
    starts = _word_starts(rows)
    order = rows.draw(rows.candidates.shape[1])  # [B, L]
    return _choose_groups(rows, starts, _item_numbers(starts), order)


def ngram(rows: Rows) -> ChosenTokens:
    """Chooses n-grams of whole words, n up to 3 with shares 1 / n.

    Differs: ALBERT draws n anew for every place it tries, and smaller ones
    where n-grams overlap. Here the text is first cut into n-grams.

    Source: ALBERT section 4.1, and create_pretraining_data.py.
    """
    starts = _word_starts(rows)
    groups, order = _draw_groups(rows, _item_numbers(starts), _NGRAM_SHARES)
    return _choose_groups(rows, starts, groups, order)


def span(rows: Rows) -> ChosenTokens:
    """Chooses spans of up to 10 pieces with geometric lengths, on average 3.8.

    Differs: SpanBERT's lengths count words, not pieces, which makes spans
    longer, and places them one by one. Here the text is first cut into spans.

    Source: SpanBERT section 3.1.
    """
    starts = _word_starts(rows)
    first_pieces = _at_starts(starts, _item_numbers(rows.candidates))
    units = gather_positions(first_pieces, _item_numbers(starts))
    groups, order = _draw_groups(rows, units, _SPAN_SHARES)
    return _choose_groups(rows, rows.candidates, groups, order)


STRATEGIES: Mapping[str, Callable[[Rows], ChosenTokens]] = {
    "uniform": uniform,
    "whole_word": whole_word,
    "ngram": ngram,
    "span": span,
    "unigram": unigram,
}
"""Strategies by the names that `MaskingConfig.masking_strategy` lists."""


def _largest(rows: Rows, scores: tf.Tensor, least: float) -> ChosenTokens:
    """Chooses the candidates with the largest scores, all above `least`."""
    scores = tf.where(rows.candidates, scores, least)
    best, positions = tf.math.top_k(scores, rows.num_slots)
    return positions, best > least


def _run_starts(candidates: tf.Tensor) -> tf.Tensor:
    """Returns bool [B, L]: True where a run of candidates begins."""
    before = tf.pad(candidates[:, :-1], [[0, 0], [1, 0]])
    return tf.logical_and(candidates, tf.logical_not(before))


def _word_starts(rows: Rows) -> tf.Tensor:
    """Returns bool [B, L]: True where a word begins."""
    continues = np.array(rows.vocabulary.continues_word)  # bool [V]
    begins = tf.gather(~continues, rows.input_ids)  # bool [B, L]
    begins = tf.logical_and(begins, rows.candidates)
    return tf.logical_or(begins, _run_starts(rows.candidates))


def _item_numbers(starts: tf.Tensor) -> tf.Tensor:
    """Returns int32 [B, L]: the number, from 0, of the last start so far."""
    return tf.maximum(tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0)


def _draw_groups(
    rows: Rows, units: tf.Tensor, shares: Sequence[float]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Groups consecutive units by their shares; returns number and order."""
    length = units.shape[1]
    order, numbers = tf.unstack(rows.draw(2, length), axis=1)  # [B, L]
    ends = np.cumsum(shares)
    ends = (ends / ends[-1])[:-1].astype(np.float32)
    longer = tf.cast(numbers[..., tf.newaxis] >= ends, tf.int32)
    sizes = 1 + tf.reduce_sum(longer, -1)  # [B, L]
    next_starts = tf.minimum(tf.cumsum(sizes, axis=1), length)
    starts = _sum_by(next_starts, tf.ones_like(sizes))  # 0 or 1
    groups = gather_positions(tf.cumsum(starts, axis=1), units)
    groups += _item_numbers(_run_starts(rows.candidates))
    return groups, order  # [B, L] each


def _choose_groups(
    rows: Rows, starts: tf.Tensor, groups: tf.Tensor, order: tf.Tensor
) -> ChosenTokens:
    """Takes all items that fit, by groups in random order: all [B, L]."""
    length = groups.shape[1]
    items = _item_numbers(starts)
    sizes = _sum_by(items, tf.cast(rows.candidates, tf.int32))  # [B, L]
    keys = _at_starts(starts, gather_positions(order, groups))  # [B, L]
    # top_k takes the left of equal keys, so that groups stay together.
    ranked = tf.math.top_k(keys, length).indices  # [B, L], items
    fits = _fits_greedily(
        gather_positions(sizes, ranked), tf.cast(rows.budget, tf.int32)
    )
    taken = _sum_by(ranked, tf.cast(fits, tf.int32)) > 0  # [B, L], by item
    chosen = tf.logical_and(rows.candidates, gather_positions(taken, items))
    left_first = tf.range(length, 0, -1, tf.float32)
    return _largest(rows._replace(candidates=chosen), left_first, 0.0)


def _fits_greedily(sizes: tf.Tensor, budget: tf.Tensor) -> tf.Tensor:
    """Takes each size that still fits: [B, L], budget [B, 1] -> [B, L]."""

    def fits(kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sums so far, int32 [B, L], and where they fit."""
        sums = tf.cumsum(tf.where(kept, sizes, 0), axis=1)
        return sums, sums <= budget

    def is_over(kept: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(tf.logical_and(kept, ~fits(kept)[1]))

    def drop(kept: tf.Tensor) -> tuple[tf.Tensor]:
        sums, fit = fits(kept)
        filled = tf.reduce_max(tf.where(fit, sums, 0), 1, keepdims=True)
        return (kept & (fit | (sizes <= budget - filled)),)

    kept = tf.ones_like(sizes, tf.bool)
    return tf.while_loop(is_over, drop, (kept,))[0]


def _at_starts(starts: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Collects the values at the starts of items, [B, L], by item."""
    values = tf.where(starts, values, tf.zeros_like(values))
    return _sum_by(_item_numbers(starts), values)


def _sum_by(index: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Sums the numbers of a row that have the same index, [B, L] -> [B, L]."""
    width = index.shape[1] + 1
    num_rows = tf.shape(index)[0]
    flat = index + width * tf.range(num_rows)[:, tf.newaxis]
    sums = tf.math.unsorted_segment_sum(values, flat, num_rows * width)
    return tf.reshape(sums, [-1, width])[:, :-1]
