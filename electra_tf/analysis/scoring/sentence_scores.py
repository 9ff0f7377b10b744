"""Scores of whole sentences, by each score of a model and in both forms.

total   sum over the tokens: log-probability of the sentence
mean    that by token, so that a long sentence does not lose by its length
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from electra_tf.analysis.scoring import progress
from electra_tf.analysis.scoring.scores import TextScores
from electra_tf.config.analysis import AnalysisConfig

FORMS = ("total", "mean")


class ScoresTexts(Protocol):
    """A model that scores texts, as `Scorer` does.

    Attributes:
      scores: names of those that it can give, its own first.
    """

    scores: Sequence[str]

    def score(
        self, texts: Iterable[str], *, scores: Sequence[str]
    ) -> Iterator[TextScores]:
        """Yields the scores of each text, in order."""


def names(scorer: ScoresTexts, config: AnalysisConfig) -> tuple[str, ...]:
    """Returns the scores to compare, the model's own first."""
    return tuple(config.scores or scorer.scores)


def title(score: str, form: str) -> str:
    """Names a score in one of its `FORMS`."""
    return f"{score}, {form}"


def of_texts(
    scorer: ScoresTexts, texts: Sequence[str], scores: Sequence[str]
) -> dict[str, np.ndarray]:
    """Scores texts, equal ones once.

    Args:
      scorer: a model.
      texts: n sentences.
      scores: names of scores.

    Returns:
      `title` of each score and form -> float64 [n], nats; negative infinity
      for a text without a token, which is no sentence.
    """
    unique = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    found: Mapping[str, list[float]] = {
        title(score, form): [] for score in scores for form in FORMS
    }
    scored = scorer.score(list(unique), scores=scores)
    for text in progress.reported(scored, len(unique)):
        for score in scores:
            values = (text.total(score), text.mean(score))
            for form, value in zip(FORMS, values, strict=True):
                is_sentence = bool(text.tokens)
                found[title(score, form)].append(
                    value if is_sentence else -np.inf
                )
    order = np.array([unique[text] for text in texts], int)
    return {name: np.array(values)[order] for name, values in found.items()}
