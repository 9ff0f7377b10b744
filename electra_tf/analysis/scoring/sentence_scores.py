"""Scores of whole sentences, each in two forms.

total   sum over the tokens: log-probability of the sentence
mean    total / number of tokens, so that long sentences are not penalized
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
    """Scores texts; texts with the same tokens get exactly the same scores."""
    titles = [title(score, form) for score in scores for form in FORMS]
    of_text: dict[str, list[float]] = {}
    of_tokens: dict[tuple[str, ...], list[float]] = {}
    unique = list(dict.fromkeys(texts))
    for text in progress.score_texts(scorer, unique, scores):
        tokens = tuple(token.token for token in text.tokens)
        values = [
            value if tokens else -np.inf
            for score in scores
            for value in (text.total(score), text.mean(score))
        ]
        # Equal tokens must tie, though rounding differs from batch to batch.
        of_text[text.text] = of_tokens.setdefault(tokens, values)
    rows = np.reshape([of_text[text] for text in texts], (-1, len(titles)))
    return dict(zip(titles, rows.T, strict=True))
