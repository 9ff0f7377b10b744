"""Minimal pairs: how often a model prefers the grammatical sentence.

A pair is an object of a .jsonl line or a .json list, as in BLiMP:

    {"sentence_good": "Who should Derek hug after shocking Richard?",
     "sentence_bad": "Who should Derek hug Richard after shocking?",
     "UID": "adjunct_island", "linguistics_term": "island_effects"}

By default each file is a paradigm, each paradigm a phenomenon. Accuracy is the
share of pairs whose good sentence has the higher score; equal scores count
half. On a phenomenon, and overall, it is the mean over paradigms, which the
overall interval resamples: the pairs of a paradigm are made from one template.

Source: Warstadt et al., 2020 (BLiMP).
"""

import collections
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from electra_tf.analysis import examples
from electra_tf.analysis.report import (
    Interval,
    Report,
    Table,
    bootstrap,
    wilson,
)
from electra_tf.analysis.scorer import Scorer, score_sentences
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.tables import Row


class MinimalPair(NamedTuple):
    good: str
    bad: str
    paradigm: str
    phenomenon: str


def run(config: AnalysisConfig) -> Report:
    pairs = examples.read_json(config, "test", parse)
    scorer = Scorer.from_config(config)
    scores = config.scores or scorer.scores
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    accuracies = {
        name: measure(config, pairs, values[0::2], values[1::2])
        for name, values in score_sentences(scorer, texts, scores).items()
    }
    totals = {name: accuracies[f"{name}, total"] for name in scores}
    own = totals[scores[0]]
    title = (
        f"Accuracy in percent, mean of {len(own['paradigms']):,} paradigms, "
        f"with 95 % intervals, of {len(pairs):,} pairs. The model's own score: "
        f"{scores[0]}."
    )
    tables = [Table(title, accuracies, digits=1)]
    for kind, field in (("phenomenon", "phenomena"), ("paradigm", "paradigms")):
        counts = collections.Counter(getattr(pair, kind) for pair in pairs)
        rows = {
            name: {"pairs": counts[name]}
            | {score: x[field][name] for score, x in totals.items()}
            for name in own[field]
        }
        title = f"Accuracy by {kind}, by the total of each score."
        tables.append(Table(title, rows, digits=1))
    results = {"num_pairs": len(pairs), "own_score": scores[0]}
    return Report({**results, "scores": accuracies}, tables)


def parse(row: Row, path: str) -> MinimalPair:
    stem, _, _ = os.path.basename(path).rpartition(".json")
    paradigm = row.value("UID", str, stem)
    return MinimalPair(
        good=row.text("sentence_good"),
        bad=row.text("sentence_bad"),
        paradigm=paradigm,
        phenomenon=row.value("linguistics_term", str, paradigm),
    )


def measure(
    config: AnalysisConfig,
    pairs: Sequence[MinimalPair],
    good: np.ndarray,
    bad: np.ndarray,
) -> dict[str, Any]:
    """Computes accuracies, in percent, from the scores of both sentences."""
    is_preferred = np.where(good == bad, 0.5, good > bad)
    names = np.array([pair.paradigm for pair in pairs], object)
    phenomenon_of = {pair.paradigm: pair.phenomenon for pair in pairs}
    paradigms, phenomena = {}, {}
    for paradigm, phenomenon in sorted(phenomenon_of.items()):
        group = is_preferred[names == paradigm]
        share = Interval(*(100 * x for x in wilson(group.sum(), len(group))))
        paradigms[paradigm] = share
        phenomena.setdefault(phenomenon, []).append(share.value)
    whole = share
    if len(paradigms) > 1:
        values = np.array([share.value for share in paradigms.values()])
        (whole,) = bootstrap(lambda i: values[i].mean(), len(values), config)
    return {
        "whole": whole,
        "num_ties": int((good == bad).sum()),
        "phenomena": {k: np.mean(x) for k, x in sorted(phenomena.items())},
        "paradigms": paradigms,
    }
