"""Makes sentences in which a later word is a copy of an earlier one, or is not.

A word of a sentence and a later one, at least `MIN_DISTANCE` words apart, are
chosen at random. The later one is replaced by a copy of the first, or by a word
of another sentence. Both words are all letters and occur once, whatever their
case; the first word of a sentence is not chosen. As copies and other words are
drawn from the same words, and stand behind the word that is looked at, neither
the words nor their positions give away which of the two it is.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Words = tuple[str, ...]

MIN_DISTANCE = 8
"""Least distance of a word and its copy, in words."""


class Versions(NamedTuple):
    """A sentence with a word of another sentence in a place, or with a copy."""

    unique: Words
    copied: Words


class CopiedWord(NamedTuple):
    """A word of a sentence, with and without a later copy of it."""

    index: int
    original: Versions
    foreign: Versions


class _Places(NamedTuple):
    """A sentence and two of its words."""

    words: Words
    index: int
    later: int


def make(
    sentences: Sequence[Words], random: np.random.Generator
) -> list[CopiedWord]:
    """Makes an example of each sentence with two such words."""
    chosen = [
        _Places(words, *pairs[random.integers(len(pairs))])
        for words in sentences
        if (pairs := _pairs(words))
    ]
    own = [places.words[places.index] for places in chosen]
    of_others = (own[-1:] + own[:-1], own[-2:] + own[:-2])
    return [
        _versions(places, unique, foreign)
        for places, unique, foreign in zip(chosen, *of_others, strict=True)
        if _can_insert(places.words, unique, foreign)
    ]


def _pairs(words: Words) -> list[tuple[int, int]]:
    """Returns the pairs of indices of words that can be chosen together."""
    counts = Counter(word.lower() for word in words)
    indices = [
        i
        for i, word in enumerate(words)
        if i and word.isalpha() and counts[word.lower()] == 1
    ]
    return [
        (i, later)
        for i, later in itertools.combinations(indices, 2)
        if later - i >= MIN_DISTANCE
    ]


def _can_insert(words: Words, unique: str, foreign: str) -> bool:
    inserted = {unique.lower(), foreign.lower()}
    return len(inserted) == 2 and not inserted & {w.lower() for w in words}


def _versions(places: _Places, unique: str, foreign: str) -> CopiedWord:
    """Makes the versions of a sentence from two words of other sentences."""
    words, index, later = places

    def with_words(word: str, later_word: str) -> Words:
        changed = list(words)
        changed[index], changed[later] = word, later_word
        return tuple(changed)

    original, unseen = (
        Versions(with_words(word, unique), with_words(word, word))
        for word in (words[index], foreign)
    )
    return CopiedWord(index, original, unseen)
