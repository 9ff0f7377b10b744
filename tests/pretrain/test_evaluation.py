import numpy as np
import pytest
import tensorflow as tf
import tiny

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
