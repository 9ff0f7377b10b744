"""Linear probes: linear classifiers on the frozen states of a layer.

For each layer, a logistic regression is fitted to predict the tag of a word
from its state. If it succeeds, the tag is linearly decodable from the layer;
that does not mean that the network uses it.

Letters in shapes: S layers of all networks, including the embeddings; W words,
H hidden.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis.reporting.statistics import Interval, bootstrap
from electra_tf.config.analysis import AnalysisConfig

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

_MAX_ITERATIONS = 1000
_TOLERANCE = 1e-3  # a tenth of it takes twice the time for the same accuracy

BASELINES = ("most frequent tag", "most frequent tag of the word")


class Probes(NamedTuple):
    """A probe for each layer, and baselines without a network."""

    num_learnt: int
    most_frequent: str
    by_word: Mapping[str, str]
    of_layers: Sequence["Pipeline"]

    def predict(
        self, words: Sequence[str], layers: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Predicts tags of words, [2 + S, W]: `BASELINES`, then the layers."""
        probes = zip(self.of_layers, layers, strict=True)
        return np.array(
            [
                [self.most_frequent for _ in words],
                [self.by_word.get(word, self.most_frequent) for word in words],
                *(probe.predict(states) for probe, states in probes),
            ]
        )


def learn(
    words: Sequence[str], tags: Sequence[str], layers: Sequence[np.ndarray]
) -> Probes:
    """Fits the probes.

    Shapes: layers [W, H].
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(words, tags, strict=True):
        counts[word][tag] += 1
    return Probes(
        len(words),
        Counter(tags).most_common(1)[0][0],
        {word: count.most_common(1)[0][0] for word, count in counts.items()},
        [fit_classifier(states, tags) for states in layers],
    )


def fit_classifier(features: np.ndarray, labels: Sequence[str]) -> "Pipeline":
    """Fits a logistic regression to standardized features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression = LogisticRegression(max_iter=_MAX_ITERATIONS, tol=_TOLERANCE)
    return make_pipeline(StandardScaler(), regression).fit(features, labels)


def accuracies(
    is_right: np.ndarray, sentences: np.ndarray, config: AnalysisConfig
) -> list[Interval]:
    """Computes the mean of each row; its interval resamples sentences.

    Shapes: sentences [W].
    """
    _, sentences = np.unique(sentences, return_inverse=True)
    sizes = np.bincount(sentences)
    sums = [np.bincount(sentences, weights=row) for row in is_right]

    def mean(sums: np.ndarray) -> Interval:
        return bootstrap(
            lambda i: sums[i].sum() / sizes[i].sum(), len(sizes), config
        )

    return list(map(mean, sums))
