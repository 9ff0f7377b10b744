"""Scores of whole sentences, by each score of a model and in both forms.

total   sum over the tokens: log-probability of the sentence
mean    that by token, so that a long sentence does not lose by its length
"""

from collections.abc import Sequence

import numpy as np

from electra_tf.analysis.scoring import progress
from electra_tf.analysis.scoring.scorer import Scorer

FORMS = ("total", "mean")


def title(score: str, form: str) -> str:
    """Names a score in one of its `FORMS`."""
    return f"{score}, {form}"


def of_texts(
    scorer: Scorer, texts: Sequence[str], scores: Sequence[str]
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
    found = {title(score, form): [] for score in scores for form in FORMS}
    for text in progress.scored(scorer, list(unique), scores):
        for score in scores:
            values = (text.total(score), text.mean(score))
            for form, value in zip(FORMS, values, strict=True):
                found[title(score, form)].append(
                    value if text.tokens else -np.inf
                )
    order = np.array([unique[text] for text in texts], int)
    return {name: np.array(values)[order] for name, values in found.items()}
