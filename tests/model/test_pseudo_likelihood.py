import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.objectives import MaskingConfig
from electra_tf.model import pseudo_likelihood
from electra_tf.pretrain import pretrain_helpers


@pytest.mark.parametrize("mask_prob", [0.15, 0.3, 0.4])
def test_share_of_replaced_equals_that_of_training(mask_prob):
    masking = MaskingConfig(mask_prob=mask_prob)
    longest = 512
    rows = tiny.batch(longest, longest)
    mask = tf.constant(np.tril(np.ones((longest, longest), np.int32))[2:])
    inputs = rows._replace(input_ids=rows.input_ids[2:], input_mask=mask)
    chosen = pretrain_helpers.num_chosen(inputs, masking).numpy()[:, 0]
    sizes = np.arange(1, longest - 1)  # without [CLS] and [SEP]
    found = pseudo_likelihood.share_of_replaced(sizes, masking, longest)
    expected = np.minimum(chosen / sizes, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_share_of_a_text_counts_neither_its_ends_nor_padding():
    masking = MaskingConfig(mask_prob=0.3)
    sizes = np.array([12, 7, 3])  # with [CLS] and [SEP]
    mask = (np.arange(12) < sizes[:, np.newaxis]).astype(np.int32)
    z, log_q = np.random.default_rng(0).normal(size=(2, 3, 12)).astype("f")
    found = pseudo_likelihood.log_probs_of_texts(
        z, log_q, mask, masking=masking, max_seq_length=12
    )
    # round(0.3 * size) are chosen, at most int((0.3 + 0.005) * 12).
    shares = np.array([[3 / 10], [2 / 5], [1]])
    real, q = 1 / (1 + np.exp(z)), np.exp(log_q)
    expected = np.log(real * q / ((1 - shares) / shares * (1 - real) + q))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_optimal_discriminator_recovers_the_data_distribution():
    """Derives the discriminator from data p, noise q and training's labels."""
    rng = np.random.default_rng(0)
    p, q = (rng.dirichlet(np.ones(7)) for _ in range(2))
    share = 0.15
    # Masked and sampled: token v with probability q, real if it is the data's.
    real = (1 - share) * p + share * q * p
    replaced = share * q * (1 - p)
    found = pseudo_likelihood.electra_log_probs(
        np.log(replaced / real), np.log(q), share
    )
    np.testing.assert_allclose(np.exp(found), p, rtol=1e-9)
