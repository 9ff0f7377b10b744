"""Perturbed sentences: which words change, and which never do."""

import collections

import numpy as np
import pytest

from electra_tf.analysis.examples import perturbed_sentences
from electra_tf.analysis.examples.perturbed_sentences import PERTURBATIONS

TEXT = "We think that the old dog is in the park , they say"
SENTENCE = tuple(TEXT.split())


def changed_places(pair):
    """Returns the places at which a sentence and its perturbed form differ."""
    both = zip(pair.original, pair.perturbed, strict=True)
    return [i for i, (word, other) in enumerate(both) if word != other]


def test_neighbours_are_exchanged_and_the_first_word_and_marks_stay():
    random = np.random.default_rng(0)
    seen = collections.Counter()
    for pair in perturbed_sentences.swap_words([SENTENCE] * 300, random):
        first, second = changed_places(pair)
        assert second == first + 1
        assert pair.perturbed[first] == pair.original[second]
        assert pair.perturbed[second] == pair.original[first]
        seen[first] += 1
    # "We" (0) is the first word, and the comma (10) is no word.
    assert set(seen) == {1, 2, 3, 4, 5, 6, 7, 8, 11}


def test_words_that_are_the_same_are_not_exchanged():
    random = np.random.default_rng(0)
    words = ("He", "said", "that", "That", ".")
    pairs = perturbed_sentences.swap_words([words] * 20, random)
    assert {pair.perturbed for pair in pairs} == {
        ("He", "that", "said", "That", ".")
    }


def test_agreement_errors_flip_both_verb_forms_equally_often():
    random = np.random.default_rng(0)
    plural = tuple("The old dogs are in the park".split())
    pairs = perturbed_sentences.break_agreement(
        [SENTENCE, plural, SENTENCE, SENTENCE, plural], random
    )
    assert [pair.original for pair in pairs] == [
        SENTENCE,
        plural,
        SENTENCE,
        plural,
    ]
    assert [pair.perturbed[6] for pair in pairs[::2]] == ["are", "are"]
    assert [pair.perturbed[3] for pair in pairs[1::2]] == ["is", "is"]
    assert all(len(changed_places(pair)) == 1 for pair in pairs)


@pytest.mark.parametrize("name", PERTURBATIONS)
@pytest.mark.parametrize(
    "words", [SENTENCE[4:8], SENTENCE * 3, ("Is", "1", "-", "2", "!")]
)
def test_a_sentence_without_a_place_to_change_is_left_out(name, words):
    """Too short, too long, or with no word after the first."""
    assert PERTURBATIONS[name]([words], np.random.default_rng(0)) == []
