"""Perturbs sentences: one change that makes each unacceptable.

    word swap   two neighbouring words exchanged
    agreement   a form of to be, to have or to do of the other number

Sentences have 5 to 28 words. The first word never changes, as its capital would
give the change away, nor does a word that is not all letters. A change probably
makes a sentence unacceptable, but not certainly: "if I were" becomes "if I
was".

Source: Conneau et al., 2018, task BShift (word swaps; lengths).
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Words = tuple[str, ...]

_MIN_WORDS, _MAX_WORDS = 5, 28
_NUMBERS = (("is", "are"), ("was", "were"), ("has", "have"), ("does", "do"))
_OTHER_NUMBER = {
    form: other
    for pair in _NUMBERS
    for form, other in itertools.permutations(pair)
}


class PerturbedPair(NamedTuple):
    """A sentence and its perturbed version."""

    original: Words
    perturbed: Words


Perturbation = Callable[
    [Sequence[Words], np.random.Generator], list[PerturbedPair]
]
"""Pairs each sentence that can be changed with its perturbed version; where to
change it is chosen at random. Other sentences are left out."""


def swap_words(
    sentences: Sequence[Words], random: np.random.Generator
) -> list[PerturbedPair]:
    """Exchanges two neighbouring words that differ."""
    found = []
    for words, indices in _changeable_sentences(sentences, _is_swappable):
        i = random.choice(indices)
        perturbed = (*words[:i], words[i + 1], words[i], *words[i + 2 :])
        found.append(PerturbedPair(words, perturbed))
    return found


def break_agreement(
    sentences: Sequence[Words], random: np.random.Generator
) -> list[PerturbedPair]:
    """Gives a verb the form of the other number."""
    found = []
    pairs_of_form: dict[str, list[int]] = defaultdict(list)
    for words, indices in _changeable_sentences(sentences, _is_inflected_verb):
        i = random.choice(indices)
        pairs_of_form[words[i]].append(len(found))
        perturbed = (*words[:i], _OTHER_NUMBER[words[i]], *words[i + 1 :])
        found.append(PerturbedPair(words, perturbed))
    kept_pairs: list[int] = []
    for forms in _NUMBERS:
        one, other = (pairs_of_form[form] for form in forms)
        num_both = min(len(one), len(other))
        kept_pairs += one[:num_both] + other[:num_both]
    return [found[i] for i in sorted(kept_pairs)]


PERTURBATIONS: Mapping[str, Perturbation] = {
    "word swap": swap_words,
    "agreement": break_agreement,
}


def _changeable_sentences(
    sentences: Sequence[Words], can_change: Callable[[str, str], bool]
) -> Iterator[tuple[Words, list[int]]]:
    """Yields each sentence that can be changed, with the indices of its
    places."""
    for words in sentences:
        if _MIN_WORDS <= len(words) <= _MAX_WORDS:
            neighbour_pairs = enumerate(itertools.pairwise((*words, "")))
            if indices := [
                i
                for i, neighbours in neighbour_pairs
                if i and can_change(*neighbours)
            ]:
                yield words, indices


def _is_swappable(word: str, following: str) -> bool:
    are_words = word.isalpha() and following.isalpha()
    return are_words and word.lower() != following.lower()


def _is_inflected_verb(word: str, following: str) -> bool:
    del following
    return word in _OTHER_NUMBER
