"""Logistic regression."""

import numpy as np

from electra_tf.analysis.representations import linear_models


def test_the_scale_of_a_feature_changes_no_answer():
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 2))
    labels = list(np.where(features @ [1.0, -2.0] > 0, "up", "down"))
    answers = [
        linear_models.fit(features * scale, labels).predict(features * scale)
        for scale in (np.ones(2), np.array([1e4, 1e-4]))
    ]
    np.testing.assert_array_equal(*answers)
    assert np.mean(answers[0] == labels) > 0.95
