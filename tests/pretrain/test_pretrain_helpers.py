"""Masking against a plain loop over words, frequencies and stored masks."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.objectives import MaskingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import STRATEGIES
from electra_tf.pretrain.random_keys import Purpose, draw
from electra_tf.util import seeds

PAD, UNK, CLS, SEP, MASK = range(5)
SIZE = 300
# A third of the pieces continue a word; counts follow Zipf's law.
PIECES = (f"##p{i}" if i % 3 == 0 else f"p{i}" for i in range(SIZE - 5))
VOCABULARY = Vocabulary(
    (*tiny.SPECIALS, *PIECES),
    counts=tuple(10_000 // (i + 1) for i in range(SIZE)),
)
CONTINUES = np.array([x.startswith("##") for x in VOCABULARY.tokens])
PLAIN = Vocabulary(tiny.SPECIALS + tuple(f"w{i}" for i in range(495)))
"""A vocabulary in which each piece is a word."""


def _inputs(ids):
    """Returns rows of these ids, padding where they are 0."""
    arrays = (ids, ids > 0, ids * 0)
    return Inputs(*(tf.constant(x.astype(np.int32)) for x in arrays))


def _batch(num_rows, length):
    """Returns rows of [CLS] pieces [SEP] pieces [SEP], some with a [MASK]."""
    rng = np.random.default_rng(0)
    ids = rng.choice(np.arange(5, SIZE), (num_rows, length))
    sizes = rng.integers(4, length + 1, num_rows)
    sizes[0] = length
    ids[rng.random(ids.shape) < 0.02] = MASK
    columns = np.arange(length)
    ids[:, 0] = CLS
    ids[columns == sizes[:, None] // 2] = SEP
    ids[columns == sizes[:, None] - 1] = SEP
    return _inputs(ids * (columns < sizes[:, None]))


def _keys(num_rows, step=0):
    return seeds.row_keys(1, tf.constant(step), tf.range(num_rows))


def _mask(inputs, config, keys=None, vocabulary=VOCABULARY):
    keys = _keys(len(inputs.input_ids)) if keys is None else keys
    return pretrain_helpers.mask(
        inputs, config, vocabulary=vocabulary, keys=keys
    )


def _budget(inputs, config):
    """Returns the rounded share of all tokens of a row, at least one."""
    sizes = inputs.input_mask.numpy().sum(1).astype(np.float32)
    most = config.max_predictions_per_seq(inputs.input_ids.shape[1])
    return np.clip(np.round(sizes * np.float32(config.mask_prob)), 1, most)


@pytest.mark.parametrize("name", STRATEGIES)
def test_candidates_are_chosen_once_and_within_the_budget(name):
    inputs = _batch(300, 40)
    config = MaskingConfig(masking_strategy=name, mask_prob=0.5)
    masked, candidates = _mask(inputs, config), tiny.candidates(inputs)
    num_chosen = masked.weights.numpy().sum(1)
    budget = np.minimum(_budget(inputs, config), candidates.sum(1))
    assert (num_chosen <= budget).all()
    if name not in ("whole_word", "ngram"):
        np.testing.assert_array_equal(num_chosen, budget)
    chosen, ids = tiny.chosen(masked), inputs.input_ids.numpy()
    assert not chosen[~candidates].any()
    np.testing.assert_array_equal(chosen.sum(1), num_chosen)
    is_shown = masked.inputs.input_ids.numpy() == ids
    assert is_shown[~chosen].all()
    used = masked.weights.numpy() > 0
    truth = np.take_along_axis(ids, masked.positions.numpy(), 1)
    np.testing.assert_array_equal(masked.ids.numpy()[used], truth[used])


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_row_is_masked_by_its_key_alone(name):
    inputs, keys = _batch(24, 40), _keys(24)
    config = MaskingConfig(masking_strategy=name)
    whole = _mask(inputs, config, keys)
    others = np.random.default_rng(0).permutation(24)[:7]
    part = Inputs(*(tf.gather(x, others) for x in inputs))
    alone = _mask(part, config, tf.gather(keys, others))
    gathered = tf.nest.map_structure(lambda x: tf.gather(x, others), whole)
    tf.nest.map_structure(np.testing.assert_array_equal, alone, gathered)
    again = _mask(inputs, config, _keys(24, step=1))
    assert (tiny.chosen(again) != tiny.chosen(whole)).any()


def _words(ids, candidates):
    """Returns the positions of each word, in a list for each run of words."""
    runs = []
    for t in np.flatnonzero(candidates):
        if not t or not candidates[t - 1]:
            runs.append([[t]])
        elif CONTINUES[ids[t]]:
            runs[-1][-1].append(t)
        else:
            runs[-1].append([t])
    return runs


SHARES = {
    "whole_word": np.ones(1),
    "ngram": 1 / np.arange(1, 4),
    "span": 0.2 * 0.8 ** np.arange(10),
}
"""Strategy -> shares of n-grams or spans of 1, 2, ... words or pieces."""


def _choose(name, runs, order, draws, budget):
    """Groups words, goes through groups by falling order, takes what fits."""
    ends = np.cumsum(SHARES[name] / SHARES[name].sum())[:-1]
    sizes = 1 + np.searchsorted(ends.astype(np.float32), draws, "right")
    tiles = np.repeat(np.arange(len(sizes)), sizes)
    groups, num_units = {}, 0
    for number, run in enumerate(runs):
        if name == "whole_word":
            number = 0
        for word in run:
            groups.setdefault(tiles[num_units] + number, []).append(word)
            num_units += len(word) if name == "span" else 1
    selected = []
    for group in sorted(groups, key=lambda group: -order[group]):
        items = groups[group]
        if name == "span":
            items = [[t] for word in items for t in word]
        for item in items:
            if len(selected) + len(item) <= budget:
                selected += item
    return selected


@pytest.mark.parametrize("prob", [0.15, 0.4])
@pytest.mark.parametrize("name", SHARES)
def test_groups_are_those_of_a_plain_loop(name, prob):
    inputs, keys = _batch(100, 60), _keys(100)
    config = MaskingConfig(masking_strategy=name, mask_prob=prob)
    shape = (60,) if name == "whole_word" else (2, 60)
    numbers = draw(keys, Purpose.MASK_POSITIONS, shape).numpy()
    numbers = np.broadcast_to(numbers.reshape(100, -1, 60), (100, 2, 60))
    chosen = tiny.chosen(_mask(inputs, config, keys))
    candidates, budget = tiny.candidates(inputs), _budget(inputs, config)
    for row, ids in enumerate(inputs.input_ids.numpy()):
        runs = _words(ids, candidates[row])
        expected = np.zeros(60, bool)
        expected[_choose(name, runs, *numbers[row], budget[row])] = True
        np.testing.assert_array_equal(chosen[row], expected)


def test_unigram_draws_in_proportion_to_the_root_of_the_count():
    row = np.array([CLS, 6, 10, 40, 40, 100, 250, 299, SEP] + [PAD] * 7)
    inputs = _inputs(np.tile(row, (20_000, 1)))
    config = MaskingConfig(masking_strategy="unigram", mask_prob=0.4)
    first = _mask(inputs, config).positions.numpy()[:, 0]
    weights = np.array(VOCABULARY.counts)[row[1:8]] ** -0.5
    shares = np.bincount(first, minlength=16)[1:8] / 20_000
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.012)


def _plain_batch(sizes):
    """Returns rows of 64: [CLS] words [SEP] words [SEP] padding."""
    rng = np.random.default_rng(0)
    ids = np.zeros((len(sizes), 64), np.int32)
    for row, size in zip(ids, sizes, strict=True):
        row[:size] = rng.integers(5, 500, size)
        row[0], row[size // 2], row[size - 1] = CLS, SEP, SEP
    return _inputs(ids)


def test_a_seed_gives_the_masks_that_it_always_gave():
    """Golden runs imply the masks of the default and of the original."""
    digest, inputs = hashlib.sha256(), _plain_batch([64, 50, 33, 17, 5, 4] * 8)
    config = MaskingConfig(
        mask_prob=0.25, mask_token_prob=0.8, random_token_prob=0.1
    )
    for step in range(3):
        masked = _mask(inputs, config, _keys(48, step), PLAIN)
        for array in (masked.inputs.input_ids, *masked[1:]):
            digest.update(array.numpy().tobytes())
    assert digest.hexdigest()[:32] == "2ddf5b8f764d9e3c536a363944fbf6c4"
