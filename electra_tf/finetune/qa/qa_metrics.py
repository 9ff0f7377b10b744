"""The official metrics of SQuAD 1.1, SQuAD 2.0 and MRQA, and their files.

Metrics are in percent. The scripts of SQuAD 1.1 and of MRQA compute the same.

Source: the original's finetune/qa/squad_official_eval.py,
squad_official_eval_v1.py and mrqa_official_eval.py.
"""

import collections
import json
import re
import string
from collections.abc import Iterable, Mapping, Sequence
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


def squad_v1(golden: Golden, predictions: Sequence[str]) -> dict[str, float]:
    """Computes the metrics of SQuAD 1.1 and of MRQA."""
    pairs = list(zip(golden, predictions, strict=True))
    return {
        name: _percent(
            [max((score(x, y) for x in xs), default=0) for xs, y in pairs]
        )
        for name, score in (("exact_match", exact_score), ("f1", f1_score))
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
    groups = {
        "": has_answer | True,
        "HasAns_": has_answer,
        "NoAns_": ~has_answer,
    }
    figures: dict[str, float | int] = {
        f"{prefix}total": int(chosen.sum())
        for prefix, chosen in groups.items()
        if chosen.any()
    }
    for name, score in (("exact", exact_score), ("f1", f1_score_v2)):
        scores = np.array(  # against the gold answer that matches best
            [
                max(
                    score(x, y) for x in [*filter(normalize_answer, xs)] or [""]
                )
                for xs, y in zip(golden, predictions, strict=True)
            ],
            float,
        )
        given = np.where(odds > threshold, ~has_answer, scores)
        for prefix, chosen in groups.items():
            if chosen.any():
                figures[prefix + name] = _percent(given[chosen])
        gains = np.where(has_answer, scores, np.where(is_answered, -1.0, 0.0))
        unanswered = np.sum(~has_answer)
        sums = unanswered + np.cumsum(gains[order])
        best = np.argmax(sums)
        is_gain = sums[best] > unanswered
        top = float(sums[best] if is_gain else unanswered)
        figures[f"best_{name}"] = 100.0 * top / len(scores)
        thresh = odds[order[best]] if is_gain else 0.0
        figures[f"best_{name}_thresh"] = float(thresh)
    return figures


def _percent(scores: Sequence[float] | np.ndarray) -> float:
    return 100.0 * float(np.sum(scores)) / max(1, len(scores))


def answer_files(
    name: str,
    answers: Sequence[Mapping[str, Any]],
    *,
    threshold: float | None = None,
) -> dict[str, str]:
    """Formats the files of a split, of answers by `QAScorer.answers`."""
    best_texts = [x["nbest"][0]["text"] if x["nbest"] else "" for x in answers]
    columns = {
        "": [x["prediction"] for x in answers],
        "_preds": best_texts,
        "_nbest": [x["nbest"] for x in answers],
    }
    odds = [x["null_odds"] for x in answers]
    if threshold is not None:
        columns["_null_odds"] = odds
    keys = [x["qas_id"] for x in answers]
    texts = {
        f"{name}{end}.json": _json(zip(keys, values, strict=True))
        for end, values in columns.items()
    }
    golden = [x["label"] for x in answers]
    if all(x["label"] or x["is_impossible"] for x in answers):
        figures = squad_v1(golden, best_texts)
        if threshold is not None:
            figures = squad_v2(golden, best_texts, odds, threshold)
        texts[f"{name}_eval.json"] = _json(figures.items())
    return texts


def _json(items: Iterable[tuple[str, Any]]) -> str:
    """Formats an object as JSON with one entry per line."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in items
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
