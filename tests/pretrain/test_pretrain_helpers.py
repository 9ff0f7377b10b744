"""Masks of the uniform strategy and of the original; others have a file."""

import dataclasses
import hashlib

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.configure_pretraining import MaskingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util import seeds

VOCABULARY = Vocabulary(tiny.SPECIALS + tuple(f"w{i}" for i in range(495)))
PAD, UNK, CLS, SEP, MASK = range(5)
DEFAULT = MaskingConfig()
ORIGINAL = dataclasses.replace(DEFAULT, original_masking=True)


def _row(num_tokens, length, rng):
    """Returns [CLS] words [SEP] words [SEP] padding."""
    row = rng.integers(5, 500, num_tokens)
    row[0], row[num_tokens // 2], row[-1] = CLS, SEP, SEP
    return np.pad(row, (0, length - num_tokens))


def _batch(sizes, length=64):
    rng = np.random.default_rng(0)
    ids = np.stack([_row(n, length, rng) for n in sizes]).astype(np.int32)
    mask = (np.arange(length) < np.array(sizes)[:, None]).astype(np.int32)
    zeros = np.zeros_like(ids)
    return Inputs(*(tf.constant(x) for x in (ids, mask, zeros)))


def _mask(inputs, config=DEFAULT, step=0):
    rows = tf.range(inputs.input_ids.shape[0])
    keys = seeds.row_keys(1, tf.constant(step), rows)
    return pretrain_helpers.mask(
        inputs, config, vocabulary=VOCABULARY, keys=keys
    )


@pytest.mark.parametrize("config", [DEFAULT, ORIGINAL])
def test_mask_chooses_the_rounded_share_of_all_tokens(config):
    sizes = [64, 50, 30, 17, 5, 4]
    chosen = _mask(_batch(sizes), config).weights.numpy().sum(1)
    shares = np.round(np.float32(sizes) * np.float32(0.15))  # half to even
    expected = np.clip(shares, 1, 9)
    np.testing.assert_array_equal(chosen, expected)


def test_the_original_never_chooses_special_tokens_or_padding():
    inputs = _batch([64, 40, 9] * 20)
    ids = inputs.input_ids.numpy()
    for step in range(5):
        masked = _mask(inputs, ORIGINAL, step)
        used = masked.weights.numpy() > 0
        rows, slots = np.nonzero(used)
        chosen = ids[rows, masked.positions.numpy()[rows, slots]]
        assert not np.isin(chosen, [PAD, CLS, SEP, MASK]).any()
        np.testing.assert_array_equal(masked.ids.numpy()[used], chosen)


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
    """Runs resume on the same masks in any version.

    The hashes changed once, when exchanging seed and step began to give
    another key.
    """
    digest = hashlib.sha256()
    inputs = _batch([64, 50, 33, 17, 5, 4] * 8)
    for step in range(3):
        masked = _mask(inputs, config, step)
        for array in (masked.inputs.input_ids, *masked[1:]):
            digest.update(array.numpy().tobytes())
    assert digest.hexdigest()[:32] == expected
    if config is DEFAULT:
        positions = masked.positions.numpy()
        assert positions[0].tolist() == [13, 23, 20, 41, 62, 27, 26, 2, 21]
        assert positions[3].tolist() == [6, 11, 2, 0, 0, 0, 0, 0, 0]


def test_original_positions_repeat():
    masked = _mask(_batch([64] * 200), ORIGINAL)
    assert any(len(set(row)) < len(row) for row in masked.positions.numpy())


@pytest.mark.parametrize("config", [DEFAULT, ORIGINAL])
def test_every_candidate_is_equally_likely(config):
    inputs = _batch([34] * 3000, length=40)
    masked = _mask(inputs, config)
    used = masked.weights.numpy() > 0
    counts = np.bincount(masked.positions.numpy()[used], minlength=40)
    candidates = np.setdiff1d(np.arange(34), [0, 17, 33])
    expected = used.sum() / len(candidates)
    assert counts.sum() == counts[candidates].sum()
    assert np.abs(counts[candidates] / expected - 1).max() < 0.2


def test_chosen_tokens_show_mask_random_or_themselves():
    config = MaskingConfig(mask_token_prob=0.8, random_token_prob=0.1)
    inputs = _batch([64] * 400)
    masked = _mask(inputs, config)
    rows = np.arange(400)[:, None]
    positions = masked.positions.numpy()
    shown = masked.inputs.input_ids.numpy()[rows, positions]
    truth = masked.ids.numpy()
    assert abs((shown == MASK).mean() - 0.8) < 0.02
    assert abs((shown == truth).mean() - 0.1) < 0.02
    others = shown[(shown != MASK) & (shown != truth)]
    assert abs(others.size / shown.size - 0.1) < 0.02
    assert len(np.unique(others)) > 200


def test_a_row_without_candidates_masks_nothing():
    ids = np.zeros((2, 64), np.int32)
    ids[0, :2] = CLS, SEP
    inputs = Inputs(*(tf.constant(x) for x in (ids, (ids > 0) * 1, ids * 0)))
    masked = _mask(inputs, ORIGINAL)
    assert masked.weights.numpy().sum() == 0
    np.testing.assert_array_equal(masked.inputs.input_ids, ids)


def test_original_masks_13_8_percent_of_tokens_where_15_are_asked_for():
    inputs = _batch([128] * 400, length=128)
    masked = _mask(inputs, ORIGINAL)
    assert abs(tiny.chosen(masked).mean() - 0.138) < 0.002


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
