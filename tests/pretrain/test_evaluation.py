import re

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain import evaluation
from electra_tf.pretrain.pretrain_data import Inputs


def _pairwise(scores, labels):
    ones, zeros = scores[labels == 1], scores[labels == 0]
    wins = (ones[:, None] > zeros).mean()
    return wins + 0.5 * (ones[:, None] == zeros).mean()


@pytest.mark.parametrize("decimals", [0, 1, 8])
def test_area_is_the_share_of_pairs_in_order(decimals):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    scores = np.round(rng.normal(size=300) + labels, decimals)
    np.testing.assert_allclose(
        evaluation.area_under_curve(scores, labels), _pairwise(scores, labels)
    )


def test_area_without_one_class_is_a_half():
    assert evaluation.area_under_curve(np.arange(3.0), np.zeros(3, int)) == 0.5


@pytest.mark.parametrize("batch", [tiny.batch, tiny.packed_batch])
def test_the_padding_of_rows_with_text_is_counted(batch):
    inputs = Inputs(*(tf.pad(x, [[0, 3], [0, 0]]) for x in batch()))
    expected = (batch().input_mask.numpy() == 0).sum()
    assert evaluation._num_padding(inputs) == expected > 0


def test_area_with_padding_counts_it_as_surely_real():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 100)
    logits = rng.normal(size=100) + labels
    metrics = evaluation._area_metrics(logits, labels, 40)
    padded = _pairwise(
        np.concatenate([logits, np.full(40, -np.inf)]),
        np.concatenate([labels, np.zeros(40, int)]),
    )
    np.testing.assert_allclose(metrics["disc_auc_with_padding"], padded)
    np.testing.assert_allclose(metrics["disc_auc"], _pairwise(logits, labels))


@pytest.fixture(scope="module")
def model():
    return tiny.model(tiny.config(initializer_range=0.5))


def _dataset():
    return tf.data.Dataset.from_tensor_slices(tiny.batch()).batch(8)


def test_every_masked_token_has_a_line_with_its_verdict(model):
    text = evaluation.samples(model, _dataset(), 8)
    keys = evaluation.evaluation_keys(tf.range(8))
    out = model.forward(tiny.batch(), keys=keys, training=False)
    fakes = int(tf.reduce_sum(out.fake.is_fake_tokens))
    verdicts = re.findall(r"(caught|missed|false alarm|same)$", text, re.M)
    assert verdicts.count("caught") + verdicts.count("missed") == fakes
    flagged = (out.disc_logits > 0) & (tiny.batch().input_mask > 0)
    flagged = int(tf.reduce_sum(tf.cast(flagged, tf.int32)))
    right = verdicts.count("caught")
    alarms = verdicts.count("false alarm")
    assert right + alarms == flagged > 0


def test_rows_are_spread_over_the_batch(model):
    parts = evaluation.samples(model, _dataset(), 4).split("\n\n")
    whole = evaluation.samples(model, _dataset(), 8).split("\n\n")
    assert parts == whole[::2]


def test_of_several_documents_in_a_row_the_first_is_shown():
    packed = tiny.model(tiny.config(initializer_range=0.5, packing="packed"))
    inputs = tiny.packed_batch()
    dataset = tf.data.Dataset.from_tensors(inputs)
    parts = evaluation.samples(packed, dataset, 8).split("\n\n")
    for row, part in enumerate(parts):
        text = part.partition("\n")[0]
        length = (inputs.input_mask.numpy()[row] == 1).sum()
        assert len(text.split()) == length
        assert text.count("CLS") == 1


def test_colour_is_only_for_terminals(model):
    assert "\x1b[" not in evaluation.samples(model, _dataset(), 2)
    assert "\x1b[3" in evaluation.samples(model, _dataset(), 2, in_colour=True)


def test_pieces_are_joined_to_words():
    words = Vocabulary((*SPECIAL_TOKENS, "play", "##ing", "now"))
    assert evaluation._text([5, 6, 7], {}, words, False) == "playing now"
    marked = evaluation._text([5, 6, 7], {1: "missed"}, words, False)
    assert marked == "play[ing] now"


def test_rows_of_padding_are_left_out(model):
    empty = Inputs(*(tf.zeros_like(x) for x in tiny.batch()))
    dataset = tf.data.Dataset.from_tensors(empty)
    assert evaluation.samples(model, dataset, 4) == ""
