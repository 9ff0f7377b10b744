"""Minimal pairs: whether a model prefers the grammatical sentence.

A pair is an object of a .jsonl line or a .json list, as in BLiMP:

    {"sentence_good": "Who should Derek hug after shocking Richard?",
     "sentence_bad": "Who should Derek hug Richard after shocking?",
     "UID": "adjunct_island", "linguistics_term": "island_effects"}

Without a UID, each file is a paradigm; without a linguistics_term, each
paradigm is a phenomenon. Accuracy is the share of pairs whose good sentence has
the higher score; equal scores count half. The accuracy on a phenomenon is the
mean over its paradigms, as in the paper, and that of the whole is the mean over
all paradigms.

Intervals: Wilson's for a paradigm; for a phenomenon, that of the mean of its
own paradigms; for the whole, a bootstrap over paradigms, since the pairs of a
paradigm are made from one template and say nothing about others.

Source: Warstadt et al., 2020 (BLiMP).
"""

import collections
import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis import examples
from electra_tf.analysis.report import (
    Interval,
    Report,
    Table,
    bootstrap,
    draw_intervals,
    shown,
    wilson,
)
from electra_tf.analysis.scorer import Scorer, score_sentences
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.tables import Row
from electra_tf.util.errors import UserError


class MinimalPair(NamedTuple):
    """A grammatical sentence, and one that is not."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str


class Accuracies(NamedTuple):
    """Accuracies by one score, in percent."""

    whole: Interval
    num_ties: int
    phenomena: Mapping[str, Interval]
    paradigms: Mapping[str, Interval]


def run(config: AnalysisConfig) -> Report:
    """Compares the pairs that a configuration names."""
    pairs = read(config)
    return minimal_pairs(config, Scorer.from_config(config), pairs)


def read(config: AnalysisConfig) -> list[MinimalPair]:
    """Reads pairs."""
    first_paths: dict[str, str] = {}

    def parse(row: Row, path: str) -> MinimalPair:
        name = os.path.basename(path)
        stem = name[: name.rfind(".json")]
        is_first = first_paths.setdefault(stem, path) == path
        paradigm = row.value("UID", str, stem if is_first else path)
        return MinimalPair(
            good=row.text("sentence_good"),
            bad=row.text("sentence_bad"),
            paradigm=paradigm,
            phenomenon=row.value("linguistics_term", str, paradigm),
        )

    pairs = examples.read_json(config, "test", parse)
    phenomena: dict[str, str] = {}
    for pair in pairs:
        first = phenomena.setdefault(pair.paradigm, pair.phenomenon)
        if first != pair.phenomenon:
            raise UserError(
                f"{pair.paradigm!r} is a paradigm of {first!r} and of "
                f"{pair.phenomenon!r}."
            )
    return pairs


def minimal_pairs(
    config: AnalysisConfig, scorer: Scorer, pairs: Sequence[MinimalPair]
) -> Report:
    """Compares pairs by each score of a model."""
    scores = config.scores or scorer.scores
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    found = score_sentences(scorer, texts, scores)
    accuracies = {
        name: measure(config, pairs, good=values[0::2], bad=values[1::2])
        for name, values in found.items()
    }
    return _report(accuracies, pairs, scores)


def measure(
    config: AnalysisConfig,
    pairs: Sequence[MinimalPair],
    *,
    good: np.ndarray,
    bad: np.ndarray,
) -> Accuracies:
    """Computes accuracies by one score."""
    is_preferred = np.where(good == bad, 0.5, good > bad)
    phenomenon_of = {pair.paradigm: pair.phenomenon for pair in pairs}
    names = np.array([pair.paradigm for pair in pairs], object)
    groups = {x: is_preferred[names == x] for x in sorted(phenomenon_of)}
    paradigms = {k: wilson(x.sum(), len(x)) for k, x in groups.items()}
    phenomena: dict[str, list[Interval]] = {}
    for paradigm, share in paradigms.items():
        phenomena.setdefault(phenomenon_of[paradigm], []).append(share)
    whole = mean([*paradigms.values()])
    if len(paradigms) > 1:
        values = np.array([share.value for share in paradigms.values()])
        (whole,) = bootstrap(lambda i: values[i].mean(), len(values), config)
    return Accuracies(
        whole=_percent(whole),
        num_ties=int((good == bad).sum()),
        phenomena={k: _percent(mean(x)) for k, x in sorted(phenomena.items())},
        paradigms={k: _percent(x) for k, x in paradigms.items()},
    )


def mean(shares: Sequence[Interval]) -> Interval:
    """Computes the unweighted mean of independent proportions.

    Source: Zou and Donner, 2008 (variances recovered from the intervals).
    """
    count = len(shares)
    value = sum(share.value for share in shares) / count
    below = math.hypot(*(share.value - share.low for share in shares)) / count
    above = math.hypot(*(share.high - share.value for share in shares)) / count
    return Interval(value, value - below, value + above)


def _percent(interval: Interval) -> Interval:
    return Interval(*(100 * x for x in interval))


def _report(
    accuracies: Mapping[str, Accuracies],
    pairs: Sequence[MinimalPair],
    scores: Sequence[str],
) -> Report:
    totals = {name: accuracies[f"{name}, total"] for name in scores}
    own = totals[scores[0]]
    title = (
        f"Accuracy in percent, mean of {len(own.paradigms):,} paradigms, with "
        f"95 % intervals, of {len(pairs):,} pairs. The model's own score: "
        f"{scores[0]}."
    )
    rows = [
        [name, shown(found.whole, 1), found.num_ties]
        for name, found in accuracies.items()
    ]
    tables = [Table(title, ("score", "accuracy", "ties"), rows)]
    for kind, field in (("phenomenon", "phenomena"), ("paradigm", "paradigms")):
        columns = [getattr(found, field) for found in totals.values()]
        counts = collections.Counter(getattr(pair, kind) for pair in pairs)
        rows = [
            [name, counts[name], *(shown(x[name], 1) for x in columns)]
            for name in columns[0]
        ]
        title = f"Accuracy by {kind}, by the total of each score."
        tables.append(Table(title, (kind, "pairs", *totals), rows))
    headline = {"accuracy (%)": own.whole.value}
    results = {
        "num_pairs": len(pairs),
        "own_score": scores[0],
        "scores": accuracies,
    }
    plot = functools.partial(
        draw_intervals,
        labels=list(own.phenomena),
        series={name: [*x.phenomena.values()] for name, x in totals.items()},
        title="Minimal pairs: accuracy, %",
        line=50.0,
    )
    plots = {"phenomena": plot}
    return Report("minimal_pairs", headline, results, tables, plots)
