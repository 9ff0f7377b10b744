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
NAMES = tuple(STRATEGIES)
WORD_STRATEGIES = ("whole_word", "ngram", "span")


def _config(strategy, **leaves):
    return MaskingConfig(masking_strategy=strategy, **leaves)


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
    mask = columns < sizes[:, None]
    arrays = (ids * mask, mask, np.zeros_like(ids))
    return Inputs(*(tf.constant(x.astype(np.int32)) for x in arrays))


def _inputs(ids):
    """Returns rows of these ids, padding where they are 0."""
    return Inputs(*(tf.constant(x) for x in (ids, (ids > 0) * 1, ids * 0)))


def _keys(num_rows, step=0):
    return seeds.row_keys(1, tf.constant(step), tf.range(num_rows))


def _mask(inputs, config, keys=None, vocabulary=VOCABULARY):
    if keys is None:
        keys = _keys(len(inputs.input_ids))
    return pretrain_helpers.mask(
        inputs,
        config,
        vocabulary=vocabulary,
        keys=keys,
        original=config is ORIGINAL,
    )


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


def _budget(inputs, config):
    length = inputs.input_ids.shape[1]
    sizes = inputs.input_mask.numpy().sum(1).astype(np.float32)
    most = config.max_predictions_per_seq(length)
    return np.clip(np.round(sizes * np.float32(config.mask_prob)), 1, most)


@pytest.mark.parametrize("name", NAMES)
def test_candidates_are_chosen_once_and_within_the_budget(name):
    inputs, config = _batch(300, 40), _config(name, mask_prob=0.5)
    masked = _mask(inputs, config)
    num_chosen = masked.weights.numpy().sum(1)
    budget = np.minimum(_budget(inputs, config), tiny.candidates(inputs).sum(1))
    assert (num_chosen <= budget).all()
    if name not in ("whole_word", "ngram"):
        np.testing.assert_array_equal(num_chosen, budget)
    chosen = tiny.chosen(masked)
    assert not chosen[~tiny.candidates(inputs)].any()
    assert chosen.sum() == masked.weights.numpy().sum()
    np.testing.assert_array_equal(
        masked.inputs.input_ids.numpy()[~chosen],
        inputs.input_ids.numpy()[~chosen],
    )
    used = masked.weights.numpy() > 0
    rows, slots = np.nonzero(used)
    ids = inputs.input_ids.numpy()[rows, masked.positions.numpy()[rows, slots]]
    np.testing.assert_array_equal(masked.ids.numpy()[used], ids)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_masked_by_its_key_alone(name):
    inputs, keys, config = _batch(24, 40), _keys(24), _config(name)
    whole = _mask(inputs, config, keys)
    others = np.random.default_rng(0).permutation(24)[:7]
    part = Inputs(*(tf.gather(x, others) for x in inputs))
    alone = _mask(part, config, tf.gather(keys, others))
    gathered = tf.nest.map_structure(lambda x: tf.gather(x, others), whole)
    tf.nest.map_structure(np.testing.assert_array_equal, alone, gathered)
    again = _mask(inputs, config, _keys(24, step=1))
    assert (tiny.chosen(again) != tiny.chosen(whole)).any()


def _tile_sizes(name, draws):
    """Converts uniform numbers to sizes of n-grams or spans."""
    shares = {"ngram": 1 / np.arange(1, 4), "span": 0.2 * 0.8 ** np.arange(10)}[
        name
    ]
    ends = np.cumsum(shares / shares.sum())
    return 1 + np.searchsorted(ends[:-1].astype(np.float32), draws, "right")


def _groups(name, runs, draws):
    """Groups words; returns (index of the group's random number, words)."""
    if name == "whole_word":
        return enumerate([word] for run in runs for word in run)
    sizes = _tile_sizes(name, draws)
    tiles = np.repeat(np.arange(len(sizes)), sizes)
    groups, num_units = {}, 0
    for number, run in enumerate(runs):
        for word in run:
            groups.setdefault(tiles[num_units] + number, []).append(word)
            num_units += len(word) if name == "span" else 1
    return groups.items()


def _choose_groups(name, groups, order, budget):
    """Goes through groups by falling `order`; returns chosen positions."""
    selected = []
    for _, words in sorted(groups, key=lambda group: -order[group[0]]):
        items = [[t] for word in words for t in word]
        for item in items if name == "span" else words:
            if len(selected) + len(item) <= budget:
                selected += item
    return selected


@pytest.mark.parametrize("prob", [0.15, 0.4])
@pytest.mark.parametrize("name", WORD_STRATEGIES)
def test_groups_are_those_of_a_plain_loop(name, prob):
    inputs, keys = _batch(100, 60), _keys(100)
    config = _config(name, mask_prob=prob)
    shape = (60,) if name == "whole_word" else (2, 60)
    draws = draw(keys, Purpose.MASK_POSITIONS, shape).numpy()
    chosen = tiny.chosen(_mask(inputs, config, keys))
    candidates, budget = tiny.candidates(inputs), _budget(inputs, config)
    for row, ids in enumerate(inputs.input_ids.numpy()):
        order, sizes = (draws[row], None)
        if name != "whole_word":
            order, sizes = draws[row]
        groups = _groups(name, _words(ids, candidates[row]), sizes)
        expected = np.zeros(60, bool)
        expected[_choose_groups(name, groups, order, budget[row])] = True
        np.testing.assert_array_equal(chosen[row], expected)


def test_unigram_draws_in_proportion_to_the_root_of_the_count():
    row = np.array([CLS, 6, 10, 40, 40, 100, 250, 299, SEP] + [PAD] * 7)
    ids = np.tile(row, (20_000, 1)).astype(np.int32)
    inputs = _inputs(ids)
    config = _config("unigram", mask_prob=0.4)
    masked = _mask(inputs, config)
    assert (masked.weights.numpy().sum(1) == 4).all()
    weights = np.array(VOCABULARY.counts)[row[1:8]] ** -0.5
    weights /= weights.sum()
    first = np.bincount(masked.positions.numpy()[:, 0], minlength=16)
    np.testing.assert_allclose(first[1:8] / 20_000, weights, atol=0.012)
    rng = np.random.default_rng(0)
    frequency = np.zeros(7)
    for _ in range(8000):
        frequency[rng.choice(7, 4, replace=False, p=weights)] += 1 / 8000
    chosen = tiny.chosen(masked).mean(0)
    np.testing.assert_allclose(chosen[1:8], frequency, atol=0.025)


PLAIN = Vocabulary(tiny.SPECIALS + tuple(f"w{i}" for i in range(495)))
"""A vocabulary in which each piece is a word."""
DEFAULT = MaskingConfig()
ORIGINAL = MaskingConfig()  # of the draws with replacement


def _plain_batch(sizes, length=64):
    """Returns rows of [CLS] words [SEP] words [SEP] padding."""
    rng = np.random.default_rng(0)
    ids = np.zeros((len(sizes), length), np.int32)
    for row, size in zip(ids, sizes, strict=True):
        row[:size] = rng.integers(5, 500, size)
        row[0], row[size // 2], row[size - 1] = CLS, SEP, SEP
    return _inputs(ids)


def _plain_mask(inputs, config=DEFAULT, step=0):
    keys = _keys(len(inputs.input_ids), step)
    return _mask(inputs, config, keys, PLAIN)


@pytest.mark.parametrize("config", [DEFAULT, ORIGINAL])
def test_mask_chooses_the_rounded_share_of_all_tokens(config):
    sizes = [64, 50, 30, 17, 5, 4]
    chosen = _plain_mask(_plain_batch(sizes), config).weights.numpy().sum(1)
    shares = np.round(np.float32(sizes) * np.float32(0.15))  # half to even
    expected = np.clip(shares, 1, 9)
    np.testing.assert_array_equal(chosen, expected)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (DEFAULT, "1b8a0a51c07ecac0da2aabe3143c43cf"),
        (
            MaskingConfig(
                mask_prob=0.25, mask_token_prob=0.8, random_token_prob=0.1
            ),
            "2ddf5b8f764d9e3c536a363944fbf6c4",
        ),
        (ORIGINAL, "85bdf811bda008322c442bc57344238a"),
    ],
    ids=["default", "random tokens", "original"],
)
def test_a_seed_gives_the_masks_that_it_always_gave(config, expected):
    digest = hashlib.sha256()
    inputs = _plain_batch([64, 50, 33, 17, 5, 4] * 8)
    for step in range(3):
        masked = _plain_mask(inputs, config, step)
        for array in (masked.inputs.input_ids, *masked[1:]):
            digest.update(array.numpy().tobytes())
    assert digest.hexdigest()[:32] == expected


def test_chosen_tokens_show_mask_random_or_themselves():
    config = MaskingConfig(mask_token_prob=0.8, random_token_prob=0.1)
    inputs = _plain_batch([64] * 400)
    masked = _plain_mask(inputs, config)
    rows = np.arange(400)[:, None]
    positions = masked.positions.numpy()
    shown = masked.inputs.input_ids.numpy()[rows, positions]
    truth = masked.ids.numpy()
    assert abs((shown == MASK).mean() - 0.8) < 0.02
    assert abs((shown == truth).mean() - 0.1) < 0.02
    others = shown[(shown != MASK) & (shown != truth)]
    assert abs(others.size / shown.size - 0.1) < 0.02
    assert len(np.unique(others)) > 200


def test_replace_averages_double_writes_like_the_original():
    # Printed by the original's scatter_update on 10..19.
    ids = tf.constant([np.arange(10, 20)], tf.int32)
    positions = tf.constant([[2, 2, 4]])
    new_ids = tf.constant([[7, 8, 9]])
    used = tf.constant([[True, True, True]])
    replaced = pretrain_helpers.replace(ids, positions, new_ids, used)
    np.testing.assert_array_equal(
        replaced, [[10, 11, 7, 13, 9, 15, 16, 17, 18, 19]]
    )
