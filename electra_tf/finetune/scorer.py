"""Metrics of all kinds of tasks, over whole splits.

Shares and correlations are in percent, as the original prints them. Those of
questions are the official ones of SQuAD 1.1, which are MRQA's, and SQuAD 2.0.
Differs: the original's scorers accumulate batches.
"""

import collections
import functools
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
import sklearn.metrics

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Outputs = Mapping[str, np.ndarray]
"""What a head returns for the rows of a split."""
Metrics = dict[str, float]
Answers = list[dict[str, Any]]
"""The prediction for each example, as JSON values."""
Golden = Sequence[Sequence[str]]
"""The gold answers of each question; empty if it has none."""
Span = tuple[int, int, str]
"""First and last word of a span, and its kind."""


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Computes the logarithms of class probabilities, float64."""
    return scipy.special.log_softmax(logits.astype(np.float64), -1)


def classification_metrics(
    targets: np.ndarray, predictions: np.ndarray
) -> Metrics:
    """Computes all metrics of class numbers [n]; f1 etc. are of class 1.

    Of sets of labels, masks [n, C], accuracy counts whole sets, macro_f1 is
    over labels, and the others are of all decisions.

    Differs: the original counts predicted positives also as gold ones, so that
    its recall is its precision.
    """
    pair = targets, predictions
    single = targets.ravel(), predictions.ravel()
    precision, recall, f1, _ = sklearn.metrics.precision_recall_fscore_support(
        *single, labels=[1], average="macro", zero_division=0
    )
    shares = {
        "accuracy": sklearn.metrics.accuracy_score(*pair),
        "mcc": sklearn.metrics.matthews_corrcoef(*single),
        "macro_f1": sklearn.metrics.f1_score(
            *pair, average="macro", zero_division=0
        ),
        "precision": precision,
        "recall": recall,
        "f1": f1,
    }
    return {name: 100 * float(value) for name, value in shares.items()}


def regression_metrics(targets: np.ndarray, predictions: np.ndarray) -> Metrics:
    """Computes all metrics of scaled values [n], 0 if a side is constant."""
    shares = {"pearson": 0.0, "spearman": 0.0, "r2": 0.0}
    if np.ptp(targets):
        shares["r2"] = sklearn.metrics.r2_score(targets, predictions)
        if np.ptp(predictions):
            for name in ("pearson", "spearman"):
                correlate = getattr(scipy.stats, f"{name}r")
                shares[name] = correlate(targets, predictions).statistic
    shares = {name: 100 * float(value) for name, value in shares.items()}
    return {**shares, "mse": float(np.mean(np.square(targets - predictions)))}


def get_span_labels(
    tags: Sequence[str], *, original: bool = False
) -> list[Span]:
    """Decodes tags into spans: IOB1, BIO or BIOES.

    A span ends where the kind changes; the original's continues, with the kind
    of its last word.
    """
    spans: list[Span] = []
    first, before, kind = None, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, new_kind = tag.partition("-")
        ends = prefix in ("B", "S", "O")
        if not original:
            ends = ends or before in ("E", "S") or new_kind != kind
        if first is not None and ends:
            spans.append((first, i - 1, kind))
            first = None
        if first is None and prefix != "O":
            first = i
        before, kind = prefix, new_kind
    return spans


def tagging_metrics(
    golden: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    is_spans: bool,
    original_spans: bool = False,
) -> Metrics:
    """Computes the accuracy of words, and the F1 of whole spans.

    Differs: the original does not score words that it cut off.
    """
    hits = [
        x == y
        for pair in zip(golden, predicted, strict=True)
        for x, y in zip(*pair, strict=True)
    ]
    accuracy = {"accuracy": 100 * sum(hits) / max(1, len(hits))}
    if not is_spans:
        return accuracy
    golden, predicted = (
        {
            (number, *span)
            for number, tags in enumerate(sentences)
            for span in get_span_labels(tags, original=original_spans)
        }
        for sentences in (golden, predicted)
    )
    num_hits = len(golden & predicted)
    precision = 100 * num_hits / max(1, len(predicted))
    recall = 100 * num_hits / max(1, len(golden))
    f1 = 2 * precision * recall / (precision + recall) if num_hits else 0.0
    return {"f1": f1, "precision": precision, "recall": recall, **accuracy}


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
