"""Linear probes: what a linear classifier reads from the states of a layer.

A logistic regression learns to tell the tag of a word from its frozen state,
one for each layer. That a probe succeeds says that a layer holds the tag in a
linear form, not that the network uses it.

Letters in shapes: S layers with the embeddings, of all networks; W words, H
hidden.
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
    """A probe for each layer, and what tells tags without a network.

    Attributes:
      num_learnt: words that they learnt from.
      most_frequent: tag of all these words.
      by_word: word -> its most frequent tag.
      of_layers: a classifier for each.
    """

    num_learnt: int
    most_frequent: str
    by_word: Mapping[str, str]
    of_layers: Sequence["Pipeline"]

    def predict(
        self, words: Sequence[str], layers: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Tells the tags of words, [2 + S, W]: `BASELINES`, then the layers.

        Args:
          words: one at least.
          layers: float [W, H] each, S of them.
        """
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

    Args:
      words: to learn from.
      tags: of each; two or more of them differ.
      layers: float [W, H] each.
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
    """Fits a logistic regression to standardized features.

    Its penalty is scikit-learn's own, C = 1; nothing is tuned.

    Args:
      features: [items, features].
      labels: of each item; two or more of them differ.

    Returns:
      A classifier, fitted.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression = LogisticRegression(max_iter=_MAX_ITERATIONS, tol=_TOLERANCE)
    return make_pipeline(StandardScaler(), regression).fit(features, labels)


def accuracies(
    is_right: np.ndarray, sentences: np.ndarray, config: AnalysisConfig
) -> list[Interval]:
    """Computes the mean of each row; words of a sentence stay together.

    Args:
      is_right: bool [rows, W]; or the difference of two, paired by word.
      sentences: int [W], number of the sentence that a word is in.
      config: of the bootstrap over sentences, the same for each row.
    """
    _, sentences = np.unique(sentences, return_inverse=True)
    sizes = np.bincount(sentences)
    sums = [np.bincount(sentences, weights=row) for row in is_right]

    def mean(sums: np.ndarray) -> Interval:
        return bootstrap(
            lambda i: sums[i].sum() / sizes[i].sum(), len(sizes), config
        )

    return list(map(mean, sums))
