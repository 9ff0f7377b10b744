"""Scores of tokens, and error scores of words.

A word's error score is the maximum over its word pieces: if one piece does not
fit, neither does the word. Items of one text depend on one another: intervals
resample texts.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from electra_tf.analysis.examples import AnnotatedText

NO_ERROR_SCORE = float(np.finfo(np.float32).min)
"""Error score of a word without tokens; scikit-learn refuses infinity."""

_DIGITS = 6


class Repair(NamedTuple):
    token: str
    probability: float


class TokenScore(NamedTuple):
    token: str
    start: int
    end: int
    start_byte: int
    end_byte: int
    probability_replaced: float | None
    log_probs: Mapping[str, float]
    repairs: tuple[Repair, ...] = ()

    @property
    def is_flagged(self) -> bool:
        """True if P(replaced) is over 0.5, its logit over 0."""
        probability = self.probability_replaced
        return probability is not None and probability > 0.5


class TextScores(NamedTuple):
    text: str
    tokens: tuple[TokenScore, ...]

    def total(self, score: str) -> float:
        """Returns the sum of a score over the tokens, nats."""
        return sum((token.log_probs[score] for token in self.tokens), 0.0)

    def mean(self, score: str) -> float:
        """Returns the mean of a score over the tokens, nats; 0 without any."""
        return self.total(score) / max(len(self.tokens), 1)


def to_json(text: TextScores, scores: Sequence[str]) -> dict[str, Any]:
    """Returns a text with its scores and its tokens' as JSON values."""
    of_text, of_tokens = {}, []
    for name in scores:
        total, num_words = text.total(name), len(text.text.split())
        of_text[name] = {
            "total": round(total, _DIGITS),
            "mean": round(text.mean(name), _DIGITS),
            "mean_per_word": round(total / max(num_words, 1), _DIGITS),
            "num_tokens": len(text.tokens),
        }
    for token in text.tokens:
        names = ("token", "start", "end", "start_byte", "end_byte")
        values = {name: getattr(token, name) for name in names}
        if token.probability_replaced is not None:
            probability = round(token.probability_replaced, _DIGITS)
            values["probability_replaced"] = probability
        values["log_probs"] = {
            name: round(x, _DIGITS) for name, x in token.log_probs.items()
        }
        if token.repairs:
            values["repairs"] = [
                {"token": x.token, "probability": round(x.probability, _DIGITS)}
                for x in token.repairs
            ]
        of_tokens.append(values)
    return {"text": text.text, "scores": of_text, "tokens": of_tokens}


def table(text: TextScores) -> str:
    """Formats a text with flagged tokens in brackets, and a line per token."""
    tokens = text.tokens
    if not tokens:
        return f"{text.text}\n  (no tokens)"
    names = list(tokens[0].log_probs)
    has_verdicts = tokens[0].probability_replaced is not None
    columns = {"original": [token.token for token in tokens]}
    if any(token.repairs for token in tokens):
        columns["generated"] = [
            x.repairs[0].token
            if x.repairs and (x.is_flagged or not has_verdicts)
            else ""
            for x in tokens
        ]
    if has_verdicts:
        columns["P(replaced)"] = [
            f"{token.probability_replaced:.2f}" for token in tokens
        ]
        columns["verdict"] = [
            "replaced" if token.is_flagged else "original" for token in tokens
        ]
    for name in names:
        columns[name] = [f"{token.log_probs[name]:.2f}" for token in tokens]
    width = max(15, *(len(token.token) for token in tokens))
    rows = [[*columns], *zip(*columns.values(), strict=True)]
    lines = [" ".join(cell.ljust(width) for cell in row) for row in rows]
    means = ", ".join(f"{name} {text.mean(name):.3f}" for name in names)
    lines.append(f"mean log-probability, nats: {means}")
    marked = text.text
    for token in reversed(tokens):
        if token.is_flagged and token.end > token.start:
            start, end = token.start, token.end
            marked = f"{marked[:start]}[{marked[start:end]}]{marked[end:]}"
    return "\n".join([marked, *(f"  {line}".rstrip() for line in lines)])


ErrorScore = Callable[[TokenScore], float]
"""A token -> a number that is greater the likelier the token is wrong."""


class Items(NamedTuple):
    """Words or tokens of texts, with error scores and labels; each [n]."""

    error_score: np.ndarray
    is_error: np.ndarray
    text: np.ndarray

    @property
    def num_texts(self) -> int:
        """Number of texts, up to the last one that has items."""
        return 1 + int(self.text.max(initial=-1))


def error_score(score: str) -> ErrorScore:
    """Returns a score's error score: P(replaced), or else -log p in nats."""
    if score == "discriminator":
        return lambda token: token.probability_replaced
    return lambda token: -token.log_probs[score]


def word_of_tokens(text: AnnotatedText, scores: TextScores) -> list[int]:
    ends = np.cumsum([1 + len(word) for word in text.words]) - 1
    characters = [max(token.start, token.end - 1) for token in scores.tokens]
    return np.searchsorted(ends[:-1], characters, "right").tolist()


def items_of_words(
    texts: Sequence[AnnotatedText],
    scores: Iterable[TextScores],
    error_score: ErrorScore,
) -> Items:
    error_scores = []
    for text, text_scores in zip(texts, scores, strict=True):
        of_words = np.full(len(text.words), NO_ERROR_SCORE)
        values = [error_score(token) for token in text_scores.tokens]
        np.maximum.at(of_words, word_of_tokens(text, text_scores), values)
        error_scores.append(of_words)
    return Items(
        np.concatenate(error_scores),
        np.concatenate([text.is_error for text in texts]).astype(bool),
        np.repeat(np.arange(len(texts)), list(map(len, error_scores))),
    )


def auc(items: Items, texts: np.ndarray) -> float:
    """Computes ROC AUC on resampled texts; NaN without both kinds of items."""
    from sklearn.metrics import roc_auc_score

    weights = np.bincount(texts, minlength=items.num_texts)[items.text]
    if not all(weights[items.is_error == x].any() for x in (False, True)):
        return math.nan
    return roc_auc_score(
        items.is_error, items.error_score, sample_weight=weights
    )
