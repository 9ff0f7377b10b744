"""Scores of texts, word by word.

A word's error score is the maximum over its word pieces: if one piece does not
fit, neither does the word. A word without pieces, such as one of control
characters, has none and is never flagged.
"""

import bisect
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from electra_tf.analysis.examples.annotated_text import AnnotatedText
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.scores import (
    NO_ERROR_SCORE,
    Items,
    TextScores,
    TokenScore,
)
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError

ErrorScore = Callable[[TokenScore], float]
"""A token -> a number that is greater the likelier the token is wrong."""


def require_discriminator(config: AnalysisConfig, scorer: Scorer) -> None:
    """Checks that the model has P(replaced)."""
    if "discriminator" not in scorer.scores:
        raise UserError(
            f"--what={config.what} needs a discriminator, for P(replaced). "
            f"Received: {config.model}, whose scores are "
            f"{', '.join(scorer.scores)}. Name another --model."
        )


def error_score(score: str) -> ErrorScore:
    """Returns a score's error score: P(replaced), or else -log p in nats."""
    if score == "discriminator":
        return lambda token: token.probability_replaced
    return lambda token: -token.log_probs[score]


def word_of_tokens(text: AnnotatedText, scores: TextScores) -> list[int]:
    """Returns the index of the word of each token."""
    ends, last = text.ends, len(text.words) - 1
    last_characters = [
        max(token.start, token.end - 1) for token in scores.tokens
    ]
    return [
        min(bisect.bisect_right(ends, last_character), last)
        for last_character in last_characters
    ]


def error_scores_of_words(
    text: AnnotatedText, scores: TextScores, error_score: ErrorScore
) -> np.ndarray:
    """Returns the greatest error score of each word's tokens."""
    found = np.full(len(text.words), NO_ERROR_SCORE)
    values = [error_score(token) for token in scores.tokens]
    np.maximum.at(found, word_of_tokens(text, scores), values)
    return found


def items_of_words(
    texts: Sequence[AnnotatedText],
    scores: Iterable[TextScores],
    error_score: ErrorScore,
) -> Items:
    """Returns the words of texts with their error scores and labels."""
    pairs = zip(texts, scores, strict=True)
    found = [error_scores_of_words(text, x, error_score) for text, x in pairs]
    sizes = [len(text.words) for text in texts]
    return Items(
        np.concatenate(found),
        np.concatenate([text.is_error for text in texts]).astype(bool),
        np.repeat(np.arange(len(texts)), sizes),
    )
