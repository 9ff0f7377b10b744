"""The official metrics of SQuAD 1.1, SQuAD 2.0 and MRQA, and their files.

Metrics are in percent. The scripts of SQuAD 1.1 and of MRQA compute the same.

Source: the original's finetune/qa/squad_official_eval.py,
squad_official_eval_v1.py and mrqa_official_eval.py.
"""

import collections
import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


def f1_score(golden: str, predicted: str) -> float:
    """Computes the F1 of the words that two texts have in common, in [0, 1]."""
    right = normalize_answer(golden).split()
    found = normalize_answer(predicted).split()
    common = collections.Counter(right) & collections.Counter(found)
    hits = sum(common.values())
    if not hits:
        return 0.0
    precision, recall = hits / len(found), hits / len(right)
    return 2 * precision * recall / (precision + recall)


def f1_score_v2(golden: str, predicted: str) -> float:
    """Computes `f1_score`, but 1 if neither text has words."""
    if normalize_answer(golden) or normalize_answer(predicted):
        return f1_score(golden, predicted)
    return 1.0


def squad_v1(
    golden: Golden, predictions: Sequence[str]
) -> dict[str, float | int]:
    """Computes the metrics of SQuAD 1.1 and of MRQA."""
    pairs = list(zip(golden, predictions, strict=True))
    exact = [max((exact_score(x, y) for x in xs), default=0) for xs, y in pairs]
    f1 = [max((f1_score(x, y) for x in xs), default=0) for xs, y in pairs]
    return {"exact_match": _percent(exact), "f1": _percent(f1)}


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
    raw = {
        "exact": _best_scores(exact_score, golden, predictions),
        "f1": _best_scores(f1_score_v2, golden, predictions),
    }
    given = {
        name: np.where(odds > threshold, ~has_answer, scores)
        for name, scores in raw.items()
    }
    everything = np.ones_like(has_answer)
    groups = {"": everything, "HasAns_": has_answer, "NoAns_": ~has_answer}
    figures: dict[str, float | int] = {}
    for prefix, chosen in groups.items():
        if not chosen.any():
            continue
        for name, scores in given.items():
            figures[prefix + name] = _percent(scores[chosen])
        figures[f"{prefix}total"] = int(chosen.sum())
    for name, scores in raw.items():
        gains = np.where(has_answer, scores, np.where(is_answered, -1.0, 0.0))
        best, at = _best_threshold(gains, odds, int(np.sum(~has_answer)))
        figures[f"best_{name}"] = 100.0 * best / len(scores)
        figures[f"best_{name}_thresh"] = at
    return figures


def _best_scores(
    score: Callable[[str, str], float],
    golden: Golden,
    predictions: Sequence[str],
) -> np.ndarray:
    """Scores each prediction against the gold answer that it matches best."""
    return np.array(
        [
            max(score(x, y) for x in [*filter(normalize_answer, xs)] or [""])
            for xs, y in zip(golden, predictions, strict=True)
        ],
        float,
    )


def _best_threshold(
    gains: np.ndarray, odds: np.ndarray, unanswered: int
) -> tuple[float, float]:
    """Returns the best score, and the greatest odds that are answered."""
    order = np.argsort(odds, kind="stable")
    scores = unanswered + np.cumsum(gains[order])
    best = int(np.argmax(scores))
    if scores[best] <= unanswered:
        return float(unanswered), 0.0
    return float(scores[best]), float(odds[order[best]])


def _percent(scores: Sequence[float] | np.ndarray) -> float:
    return 100.0 * float(np.sum(scores)) / max(1, len(scores))


Answers = Sequence[Mapping[str, Any]]
"""As `QAScorer.answers` returns them."""


def answer_files(
    name: str, answers: Answers, *, threshold: float | None = None
) -> dict[str, str]:
    """Formats the files of a split."""
    best_texts = [x["nbest"][0]["text"] if x["nbest"] else "" for x in answers]
    columns: dict[str, Sequence[Any]] = {
        "": [x["prediction"] for x in answers],
        "_preds": best_texts,
        "_nbest": [x["nbest"] for x in answers],
    }
    odds = [x["null_odds"] for x in answers]
    if threshold is not None:
        columns["_null_odds"] = odds
    keys = [x["qas_id"] for x in answers]
    texts = {
        f"{name}{end}.json": _json(dict(zip(keys, values, strict=True)))
        for end, values in columns.items()
    }
    golden = [x["label"] for x in answers]
    if all(x["label"] or x["is_impossible"] for x in answers):
        figures = (
            squad_v1(golden, best_texts)
            if threshold is None
            else squad_v2(golden, best_texts, odds, threshold)
        )
        texts[f"{name}_eval.json"] = _json(figures)
    return texts


def _json(values: Mapping[str, Any]) -> str:
    """Formats an object as JSON with one entry per line."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
