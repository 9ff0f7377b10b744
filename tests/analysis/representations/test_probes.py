"""Probes on states whose information is known."""

import numpy as np
from analysis_configs import config

from electra_tf.analysis.representations import probes

TAGS = np.array(["NOUN", "VERB", "PUNCT"])


def toy(num_words, seed):
    """Returns states of two layers, noise and noisy tags, and the tags."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 3, num_words)
    noise = random.normal(size=(2, num_words, 4))
    noise[1] *= 0.1
    noise[1, :, :3] += np.eye(3)[numbers]
    return noise.astype(np.float32), list(TAGS[numbers])


def test_a_probe_predicts_only_tags_that_a_layer_encodes():
    states, tags = toy(400, seed=0)
    fitted = probes.learn(["w"] * 400, tags, states)
    states, tags = toy(300, seed=1)
    *_, noise, tag = fitted.predict(["w"] * 300, states) == np.array(tags)
    assert tag.all()
    assert 0.2 < noise.mean() < 0.5


def test_baselines_are_the_most_frequent_tags():
    words = ["run", "run", "run", "dog", ".", "cat"]
    tags = ["VERB", "NOUN", "VERB", "NOUN", "PUNCT", "NOUN"]
    fitted = probes.learn(words, tags, [])
    assert fitted.predict(["run", ".", "new"], []).tolist() == [
        ["NOUN", "NOUN", "NOUN"],
        ["VERB", "PUNCT", "NOUN"],
    ]


def test_accuracy_counts_words_and_its_interval_resamples_sentences():
    is_right = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], bool)
    sentences = np.array([5, 5, 5, 9])
    mixed, perfect = probes.accuracies(is_right, sentences, config())
    assert mixed.value == 0.75
    # A sample has both sentences, the first twice, or the second twice.
    assert (mixed.low, mixed.high) == (0, 1)
    assert perfect == (1, 1, 1)


def test_the_scale_of_a_feature_changes_no_answer():
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 2))
    labels = list(np.where(features @ [1.0, -2.0] > 0, "up", "down"))
    predictions = [
        probes.fit_classifier(features * scale, labels).predict(
            features * scale
        )
        for scale in (np.ones(2), np.array([1e4, 1e-4]))
    ]
    np.testing.assert_array_equal(*predictions)
    assert np.mean(predictions[0] == labels) > 0.95
