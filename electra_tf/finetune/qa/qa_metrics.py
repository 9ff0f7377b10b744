"""The official metrics of SQuAD 1.1, SQuAD 2.0 and MRQA.

Metrics are in percent. The scripts of SQuAD 1.1 and of MRQA compute the same.

Source: the original's finetune/qa/squad_official_eval.py,
squad_official_eval_v1.py and mrqa_official_eval.py.
"""

import collections
import functools
import re
import string
from collections.abc import Callable, Sequence

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Golden = Sequence[Sequence[str]]
"""The gold answers of each question; empty if it has none."""


def normalize_answer(text: str) -> str:
    """Lower-cases, and drops punctuation, articles and extra white space."""
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_score(golden: str, predicted: str) -> float:
    """Returns 1 if two texts are the same when normalized, else 0."""
    return float(normalize_answer(golden) == normalize_answer(predicted))


def f1_score(golden: str, predicted: str, if_empty: float = 0.0) -> float:
    """Computes the F1 of the words that two texts have in common, in [0, 1]."""
    golden_words = normalize_answer(golden).split()
    words = normalize_answer(predicted).split()
    if not (golden_words or words):
        return if_empty
    common = collections.Counter(golden_words) & collections.Counter(words)
    if not (hits := common.total()):
        return 0.0
    precision, recall = hits / len(words), hits / len(golden_words)
    return 2 * precision * recall / (precision + recall)


def squad_v1(golden: Golden, predictions: Sequence[str]) -> dict[str, float]:
    """Computes the metrics of SQuAD 1.1 and of MRQA."""
    return {
        "exact_match": _percent(_best(exact_score, golden, predictions)),
        "f1": _percent(_best(f1_score, golden, predictions)),
    }


def squad_v2(
    golden: Golden,
    predictions: Sequence[str],
    null_odds: Sequence[float],
    threshold: float,
) -> dict[str, float | int]:
    """Computes the metrics of SQuAD 2.0."""
    odds = np.asarray(null_odds, float)
    has_answer = np.array([bool(texts) for texts in golden], bool)
    is_answered = np.array([bool(text) for text in predictions], bool)
    order = np.argsort(odds, kind="stable")
    thresholds = [0.0, *odds[order].tolist()]
    golden = [[*filter(normalize_answer, x)] or [""] for x in golden]
    groups = {
        "": np.ones_like(has_answer),
        "HasAns_": has_answer,
        "NoAns_": ~has_answer,
    }
    groups = {prefix: rows for prefix, rows in groups.items() if rows.any()}
    figures: dict[str, float | int] = {
        f"{prefix}total": int(rows.sum()) for prefix, rows in groups.items()
    }
    for name, score in (
        ("exact", exact_score),
        ("f1", functools.partial(f1_score, if_empty=1.0)),
    ):
        scores = _best(score, golden, predictions)
        shown = np.where(odds > threshold, ~has_answer, scores)
        for prefix, rows in groups.items():
            figures[prefix + name] = _percent(shown[rows])
        gains = np.where(has_answer, scores, np.where(is_answered, -1.0, 0.0))
        sums = np.cumsum([np.sum(~has_answer), *gains[order]])
        best = np.argmax(sums)
        figures[f"best_{name}"] = 100.0 * float(sums[best]) / len(scores)
        figures[f"best_{name}_thresh"] = thresholds[best]
    return figures


def _best(score: Callable, golden: Golden, texts: Sequence[str]) -> list[float]:
    """Scores each text against the gold answer that matches best."""
    pairs = zip(golden, texts, strict=True)
    return [
        max((score(x, text) for x in xs), default=0.0) for xs, text in pairs
    ]


def _percent(scores: Sequence[float] | np.ndarray) -> float:
    return 100.0 * float(np.sum(scores)) / max(1, len(scores))
