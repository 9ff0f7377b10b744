"""Scores of the tokens of a text, as JSON, and as a table for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_DIGITS = 6


class Repair(NamedTuple):
    """A suggested replacement for a token."""

    token: str
    probability: float


class TokenScore(NamedTuple):
    """A token of a text and its scores."""

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
    """A text and the scores of its tokens."""

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
