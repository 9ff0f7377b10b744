"""Copied words: only a copy tells the versions of a sentence apart."""

import collections

import numpy as np
import pytest

from electra_tf.analysis.examples import copied_words
from electra_tf.analysis.examples.copied_words import MIN_DISTANCE


def _sentences(count, length=14):
    """Returns sentences whose words are unique in all of them."""
    letters = "abcdefghijklmnopqrst"
    return [
        tuple(letters[i] + letters[j] for j in range(length))
        for i in range(count)
    ]


def _made(sentences, seed=0):
    return copied_words.make(sentences, np.random.default_rng(seed))


def _changes(words, others):
    both = enumerate(zip(words, others, strict=True))
    return [i for i, (word, other) in both if word != other]


@pytest.mark.parametrize("seed", range(5))
def test_the_versions_differ_in_a_later_word_alone(seed):
    sentences = _sentences(20)
    examples = _made(sentences, seed)
    assert len(examples) == 20
    for words, example in zip(sentences, examples, strict=True):
        (later,) = _changes(*example.original)
        assert later - example.index >= MIN_DISTANCE and example.index > 0
        assert _changes(words, example.original.unique) == [later]
        assert _changes(*example.foreign) == [later]
        assert _changes(example.original.unique, example.foreign.unique) == [
            example.index
        ]
        for unique, copied in (example.original, example.foreign):
            assert copied[later] == copied[example.index]
            assert unique.count(unique[later]) == 1
            assert unique[later] not in words


def test_copies_and_other_words_are_drawn_from_the_same_words():
    """A word stands in the later place as often as a copy as otherwise."""
    examples = _made(_sentences(20))
    own = collections.Counter(x.original.unique[x.index] for x in examples)
    later = [_changes(*example.original)[0] for example in examples]
    for versions in ("original", "foreign"):
        found = [getattr(example, versions) for example in examples]
        for which in (0, 1):
            assert own == collections.Counter(
                x[which][i] for x, i in zip(found, later, strict=True)
            )


def test_all_pairs_of_words_far_enough_apart_are_chosen():
    seen = collections.Counter()
    for seed in range(20):
        for example in _made(_sentences(20, length=11), seed):
            seen[example.index, *_changes(*example.original)] += 1
    assert set(seen) == {(1, 9), (1, 10), (2, 10)}
    assert min(seen.values()) > 100


@pytest.mark.parametrize(
    "words",
    [
        ("A", "B", "C", "D", "E", "F", "G", "H", "I"),
        ("A", "2", "C", "D", "E", "F", "G", "H", "I", "J"),
        ("A", "B", "C", "D", "E", "F", "G", "H", "I", "b"),
    ],
    ids=["too short", "not all letters", "not unique"],
)
def test_a_sentence_without_two_such_words_is_left_out(words):
    assert len(_made([words, *_sentences(3)])) == 3


def test_a_sentence_that_has_the_words_to_insert_is_left_out():
    first = ("first", *"abcdefgh", "last")
    same = ("other", *"ABCDEFGH", "end")
    assert _made([first, same, first]) == []
