"""Anisotropy: how much the states of all words point in the same direction."""

import numpy as np

from electra_tf.analysis.reporting.statistics import Interval, bootstrap
from electra_tf.config.analysis import AnalysisConfig


def mean_cosine(
    states: np.ndarray, sentences: np.ndarray, config: AnalysisConfig
) -> Interval:
    """Computes the mean cosine between words of different sentences.

    Source: Ethayarajh, 2019, section 3.3.
    """
    _, sentences = np.unique(sentences, return_inverse=True)
    num_sentences = int(sentences.max()) + 1
    units = unit_vectors(states.astype(np.float64))
    sums = np.zeros((num_sentences, units.shape[1]))
    np.add.at(sums, sentences, units)
    sizes = np.bincount(sentences)
    squares = np.sum(sums**2, axis=1)

    def of_sentences(chosen: np.ndarray) -> float:
        # A sentence sampled twice is not paired with itself.
        times = np.bincount(chosen, minlength=num_sentences)
        total = np.sum((times @ sums) ** 2) - times**2 @ squares
        pairs = (times @ sizes) ** 2 - times**2 @ sizes**2
        return total / pairs if pairs else np.nan

    return bootstrap(of_sentences, num_sentences, config)


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Scales vectors to length 1; zero vectors stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
