import tensorflow as tf
import tiny

from electra_tf.pretrain import metrics


def test_a_logit_of_zero_says_original_and_padding_counts_nothing():
    logits = tf.constant([[0.0, 1.0, -1.0, 2.0]])
    labels = tf.constant([[0, 1, 1, 0]])
    weights = tf.constant([[1.0, 1.0, 1.0, 0.0]])
    terms = metrics.discriminator_metrics(logits, labels, weights)
    del terms["disc_loss"]
    expected = {
        "disc_accuracy": 2 / 3,
        "disc_precision": 1.0,
        "disc_recall": 1 / 2,
        "replaced_share": 2 / 3,
    }
    tiny.assert_means(terms, expected, rtol=1e-6)
