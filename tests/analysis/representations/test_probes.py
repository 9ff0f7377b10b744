"""Probes on states where it is known what can be told."""

import numpy as np
import pytest

from electra_tf.analysis.representations import probes
from electra_tf.analysis.representations.probes import Hits

TAGS = np.array(["NOUN", "VERB", "PUNCT"])


def toy(num_words, seed):
    """States of two layers: noise, and the tag with a little noise."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 3, num_words)
    noise = random.normal(size=(2, num_words, 4))
    noise[1] *= 0.1
    noise[1, :, :3] += np.eye(3)[numbers]
    return noise.astype(np.float32), list(TAGS[numbers])


def test_a_probe_tells_what_a_layer_holds_and_nothing_else():
    fitted = probes.LayerProbes(*toy(400, seed=0))
    noise, tag = fitted.is_right(*toy(300, seed=1))
    assert tag.all()
    assert 0.2 < noise.mean() < 0.5


def test_baselines_are_the_most_frequent_tags():
    words = ["run", "run", "run", "dog", "."]
    tags = ["VERB", "NOUN", "VERB", "NOUN", "PUNCT"]
    told = probes.baselines([*words, "cat"], [*tags, "NOUN"])
    assert told.most_frequent == "NOUN"
    assert [told.of_word(x) for x in ("run", ".", "new")] == [
        "VERB",
        "PUNCT",
        "NOUN",
    ]


def test_accuracy_is_of_words_and_its_interval_of_sentences():
    sentences = np.array([5, 5, 5, 9])
    hits = Hits(sentences, np.array([[1, 1, 1, 0], [1, 1, 1, 1]], bool))
    mixed, perfect = probes.accuracies(hits, num_resamples=500)
    assert mixed.value == 0.75
    # With both sentences, the first twice, or the second twice.
    assert (mixed.low, mixed.high) == (0, 1)
    assert perfect == (1, 1, 1)


def test_differences_are_paired_by_word():
    sentences = np.array([0, 1, 2, 3])
    first = Hits(sentences, np.array([[1, 1, 0, 0]], bool))
    second = Hits(sentences, np.array([[0, 0, 1, 0]], bool))
    (found,) = probes.differences(first, second, num_resamples=200)
    assert found.value == pytest.approx((1 + 1 - 1) / 4)
    assert found.low < 0 < found.high
    (none,) = probes.differences(first, first, num_resamples=100)
    assert none == (0, 0, 0)
