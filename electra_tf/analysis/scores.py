"""Scores of the tokens of a text, as JSON, and as a table for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FLAG_THRESHOLD = 0.5
"""A token is flagged if its P(replaced) is greater: its logit is positive."""

_TOKEN_FIELDS = ("token", "start", "end", "start_byte", "end_byte")
_DIGITS = 6
_COLOURS = {"replaced": 31, "original": 32}
_WIDTH = 16


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
        """Whether the discriminator takes the token for a replacement."""
        probability = self.probability_replaced
        return probability is not None and probability > FLAG_THRESHOLD


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


def to_json(found: TextScores, scores: Sequence[str]) -> dict[str, Any]:
    """Returns a text, its scores and those of its tokens as JSON values."""
    num_words = len(found.text.split())
    return {
        "text": found.text,
        "scores": {
            name: {
                "total": round(found.total(name), _DIGITS),
                "mean": round(found.mean(name), _DIGITS),
                "mean_per_word": round(
                    found.total(name) / max(num_words, 1), _DIGITS
                ),
                "num_tokens": len(found.tokens),
            }
            for name in scores
        },
        "tokens": [_token_to_json(token) for token in found.tokens],
    }


def _token_to_json(token: TokenScore) -> dict[str, Any]:
    values = {name: getattr(token, name) for name in _TOKEN_FIELDS}
    if token.probability_replaced is not None:
        probability = round(token.probability_replaced, _DIGITS)
        values["probability_replaced"] = probability
    values["log_probs"] = {
        name: round(value, _DIGITS) for name, value in token.log_probs.items()
    }
    if token.repairs:
        values["repairs"] = [
            {"token": x.token, "probability": round(x.probability, _DIGITS)}
            for x in token.repairs
        ]
    return values


def table(found: TextScores, *, in_colour: bool = False) -> str:
    """Returns a text with flagged tokens in brackets, and a line per token."""
    if not found.tokens:
        return f"{found.text}\n  (no tokens)"
    names = list(found.tokens[0].log_probs)
    has_verdicts = found.tokens[0].probability_replaced is not None
    has_repairs = any(token.repairs for token in found.tokens)
    columns = ["original", *["generated"] * has_repairs]
    columns += ["P(replaced)", "verdict"] if has_verdicts else []
    longest = max(len(x.token) for x in found.tokens)
    width = max(_WIDTH, 1 + longest)
    lines = [_line([*columns, *names], width)]
    for token in found.tokens:
        cells = [token.token]
        if has_repairs:
            is_shown = token.repairs and (token.is_flagged or not has_verdicts)
            cells.append(token.repairs[0].token if is_shown else "")
        if has_verdicts:
            verdict = "replaced" if token.is_flagged else "original"
            padded = verdict.ljust(width - 1)
            cells.append(f"{token.probability_replaced:.2f}")
            cells.append(_paint(padded, verdict) if in_colour else padded)
        cells += [f"{token.log_probs[name]:.2f}" for name in names]
        lines.append(_line(cells, width))
    means = ", ".join(f"{name} {found.mean(name):.3f}" for name in names)
    text = _with_brackets(found, in_colour)
    return "\n".join([text, *lines, f"  mean log-probability, nats: {means}"])


def _line(cells: Sequence[str], width: int) -> str:
    padded = (cell.ljust(width - 1) for cell in cells)
    return ("  " + " ".join(padded)).rstrip()


def _with_brackets(found: TextScores, in_colour: bool) -> str:
    """Returns the user's own text with flagged tokens in square brackets."""
    text, end = "", 0
    for token in found.tokens:
        if token.is_flagged and token.end > token.start:
            part = f"[{found.text[token.start : token.end]}]"
            text += found.text[end : token.start]
            text += _paint(part, "replaced") if in_colour else part
            end = token.end
    return text + found.text[end:]


def _paint(text: str, verdict: str) -> str:
    return f"\x1b[{_COLOURS[verdict]}m{text}\x1b[0m"
