"""Linear probes: what a linear classifier reads from the states of a layer.

A logistic regression learns to tell the tag of a word from its frozen state,
one for each layer. That a probe succeeds says that a layer holds the tag in a
linear form, not that the network uses it.

Letters in shapes: S layers with the embeddings, W words, H hidden.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis.reporting import statistics
from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.analysis.representations import linear_models


class Baselines(NamedTuple):
    """Tags that are told without a network.

    Attributes:
      most_frequent: tag of all words that are learnt from.
      by_word: word -> its most frequent tag.
    """

    most_frequent: str
    by_word: Mapping[str, str]

    def of_word(self, word: str) -> str:
        """Returns a word's most frequent tag, of an unknown one that of all."""
        return self.by_word.get(word, self.most_frequent)


class Hits(NamedTuple):
    """Which tags of test words were told right.

    Attributes:
      sentences: int [W], number of the sentence that a word is in.
      is_right: bool [rows, W]; a row for each layer or baseline.
    """

    sentences: np.ndarray
    is_right: np.ndarray


def baselines(words: Sequence[str], tags: Sequence[str]) -> Baselines:
    """Finds the most frequent tags.

    Args:
      words: to learn from.
      tags: of each.
    """
    by_word: dict[str, Counter[str]] = {}
    for word, tag in zip(words, tags, strict=True):
        by_word.setdefault(word, Counter())[tag] += 1
    most = {word: count.most_common(1)[0][0] for word, count in by_word.items()}
    return Baselines(Counter(tags).most_common(1)[0][0], most)


class LayerProbes:
    """A probe for each layer.

    Args:
      states: float [S, W, H], of the words to learn from.
      tags: of each; two or more of them differ.
    """

    def __init__(self, states: np.ndarray, tags: Sequence[str]) -> None:
        self._probes = [linear_models.fit(layer, tags) for layer in states]

    def is_right(self, states: np.ndarray, tags: Sequence[str]) -> np.ndarray:
        """Tells tags by each probe.

        Args:
          states: float [S, W, H], of test words.
          tags: of each.

        Returns:
          bool [S, W].
        """
        predicted = [
            probe.predict(layer)
            for probe, layer in zip(self._probes, states, strict=True)
        ]
        return np.array(predicted) == np.array(tags)


def accuracies(
    hits: Hits, *, num_resamples: int = 1000, seed: int = 0
) -> list[Interval]:
    """Computes the accuracy of each row, over resampled sentences.

    Args:
      hits: of test words.
      num_resamples: bootstrap samples of sentences.
      seed: of the samples, the same for each row.
    """
    return [
        _mean_over_sentences(row, hits.sentences, num_resamples, seed)
        for row in hits.is_right.astype(np.float64)
    ]


def differences(
    hits: Hits, other: Hits, *, num_resamples: int = 1000, seed: int = 0
) -> list[Interval]:
    """Computes by how much accuracies differ, row by row and paired by word.

    Args:
      hits: of test words.
      other: of the same words, with as many rows; subtracted.
      num_resamples: bootstrap samples of sentences.
      seed: of the samples.
    """
    gains = hits.is_right.astype(np.float64) - other.is_right
    return [
        _mean_over_sentences(row, hits.sentences, num_resamples, seed)
        for row in gains
    ]


def _mean_over_sentences(
    values: np.ndarray, sentences: np.ndarray, num_resamples: int, seed: int
) -> Interval:
    """Computes the mean of words' values; words of a sentence stay together."""
    _, sentences = np.unique(sentences, return_inverse=True)
    sizes = np.bincount(sentences)
    sums = np.bincount(sentences, weights=values)
    return statistics.bootstrap(
        lambda chosen: sums[chosen].sum() / sizes[chosen].sum(),
        len(sizes),
        num_resamples=num_resamples,
        seed=seed,
    )
