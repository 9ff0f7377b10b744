"""Answers as the official evaluators of question answering read them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.finetune.qa import qa_metrics

Answers = Sequence[Mapping[str, Any]]
"""As `QAScorer.answers` returns them."""


def answer_files(
    name: str, answers: Answers, *, threshold: float | None = None
) -> dict[str, str]:
    """Writes the files of a split.

    Args:
      name: begins the names of the files.
      answers: to all questions.
      threshold: questions with greater odds are left without an answer; None
        where every question has one.

    Returns:
      Name of a file -> JSON, keyed by the questions' own names:
      <name>.json: answers, for a leaderboard.
      <name>_preds.json: answers as if each question had one.
      <name>_null_odds.json: how likely each has none, if any may.
      <name>_nbest.json: the best answers with their probabilities.
      <name>_eval.json: the official figures, where right answers are known.
    """
    guesses = [x["nbest"][0]["text"] if x["nbest"] else "" for x in answers]
    columns: dict[str, Sequence[Any]] = {
        "": [x["prediction"] for x in answers],
        "_preds": guesses,
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
    if any(golden):
        figures = (
            qa_metrics.squad_v1(golden, guesses)
            if threshold is None
            else qa_metrics.squad_v2(golden, guesses, odds, threshold)
        )
        texts[f"{name}_eval.json"] = _json(figures)
    return texts


def _json(values: Mapping[str, Any]) -> str:
    """Writes one name and its value a line."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
