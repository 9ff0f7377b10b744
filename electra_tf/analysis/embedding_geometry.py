"""Anisotropy of states, and nearest neighbours in an embedding table."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis import statistics
from electra_tf.analysis.statistics import Interval


class Neighbour(NamedTuple):
    """A token near another.

    Attributes:
      token: id.
      cosine: between their vectors.
    """

    token: int
    cosine: float


def anisotropy(
    states: np.ndarray,
    sentences: np.ndarray,
    *,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Computes the mean cosine between words of different sentences.

    It is 0 of states that point everywhere alike, and 1 of states that all
    point one way. All pairs of words count, not a sample of them: the sum of
    their cosines is the square of the sum of their unit vectors.

    Args:
      states: [words, H]; a state of zeros has the cosine 0 with all.
      sentences: int [words], number of the sentence of each.
      num_resamples: bootstrap samples of sentences.
      seed: of the samples.

    Returns:
      The mean cosine; NaN of fewer than two sentences.

    Source: Ethayarajh, 2019, section 3.3.
    """
    _, sentences = np.unique(sentences, return_inverse=True)
    num_sentences = int(sentences.max()) + 1
    units = _unit_vectors(states.astype(np.float64))
    sums = np.zeros((num_sentences, units.shape[1]))
    np.add.at(sums, sentences, units)
    sizes = np.bincount(sentences)
    squares = np.sum(sums**2, axis=1)

    def mean_cosine(chosen: np.ndarray) -> float:
        # A sentence chosen twice makes no pairs with itself.
        times = np.bincount(chosen, minlength=num_sentences)
        total = np.sum((times @ sums) ** 2) - times**2 @ squares
        pairs = (times @ sizes) ** 2 - times**2 @ sizes**2
        return total / pairs if pairs else np.nan

    return statistics.bootstrap(
        mean_cosine, num_sentences, num_resamples=num_resamples, seed=seed
    )


def nearest(
    table: np.ndarray, tokens: Sequence[int], token: int, count: int
) -> list[Neighbour]:
    """Finds the tokens whose vectors have the greatest cosine with one's.

    Args:
      table: [V, E].
      tokens: ids of those that can be found.
      token: id of the one whose neighbours are sought; never found itself.
      count: of neighbours, at most.

    Returns:
      The nearest first.
    """
    others = np.array([x for x in tokens if x != token])
    units = _unit_vectors(table)
    cosines = units[others] @ units[token]
    order = np.argsort(-cosines, kind="stable")[:count]
    return [Neighbour(int(others[i]), float(cosines[i])) for i in order]


def _unit_vectors(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
