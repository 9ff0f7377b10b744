"""Anisotropy against its definition, and of states where it is known."""

import itertools

import numpy as np
import pytest
from analysis_configs import config

from electra_tf.analysis.representations import anisotropy


def mean_cosine(states, sentences):
    return anisotropy.mean_cosine(
        np.array(states, float), np.array(sentences), config()
    )


def test_anisotropy_is_the_mean_cosine_of_words_of_different_sentences():
    random = np.random.default_rng(0)
    states = random.normal(1.0, 1.0, (20, 5))
    sentences = random.integers(10, 16, 20)
    cosines = [
        states[i]
        @ states[j]
        / (np.linalg.norm(states[i]) * np.linalg.norm(states[j]))
        for i, j in itertools.combinations(range(20), 2)
        if sentences[i] != sentences[j]
    ]
    found = mean_cosine(states, sentences)
    assert found.value == pytest.approx(np.mean(cosines))
    assert found.low < found.value < found.high


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([[2, 1], [4, 2], [6, 3]], 1),  # one direction, whatever the length
        (np.eye(3), 0),
        ([[1, 0], [-5, 0]], -1),
        ([[1, 0], [0, 0]], 0),
        ([[1, 0], [-1, 0], [0, 1], [0, -1]], -1 / 3),  # 2 of 6 pairs: -1
    ],
)
def test_anisotropy_of_simple_states_is_known(states, expected):
    found = mean_cosine(states, range(len(states)))
    assert found.value == pytest.approx(expected)


def test_pairs_inside_a_sentence_do_not_count():
    found = mean_cosine([[1, 0], [1, 0], [0, 1], [0, 1]], [7, 7, 8, 8])
    assert found.value == 0


def test_a_sentence_drawn_twice_makes_no_pairs_with_its_copy():
    states = np.eye(6)  # copies would have the cosine 1
    found = mean_cosine(states, range(6))
    assert found == (0, 0, 0)
