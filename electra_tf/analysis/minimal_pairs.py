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
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis.examples import example_files, json_rows
from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import (
    Interval,
    bootstrap,
    mean,
    shown,
    wilson,
)
from electra_tf.analysis.scoring import sentence_scores
from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.analysis.scoring.sentence_scores import FORMS
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.tables import Row
from electra_tf.util import plotting
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOTAL = FORMS[0]
_CHANCE = 50.0


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
    """Reads pairs; see `json_rows.read`."""
    names = _paradigm_names(
        example_files.find(config, "test", json_rows.ENDINGS)
    )
    parse = functools.partial(_parse, names=names)
    pairs = json_rows.read(config, "test", parse)
    phenomena: dict[str, str] = {}
    for pair in pairs:
        first_phenomenon = phenomena.setdefault(pair.paradigm, pair.phenomenon)
        if first_phenomenon != pair.phenomenon:
            raise UserError(
                "A paradigm must belong to one phenomenon. Received: "
                f"{pair.paradigm!r} of {first_phenomenon!r} and of "
                f"{pair.phenomenon!r}. Give UIDs that differ."
            )
    return pairs


def _parse(record: Row, path: str, names: Mapping[str, str]) -> MinimalPair:
    paradigm = record.value("UID", str, names[path])
    return MinimalPair(
        good=record.text("sentence_good"),
        bad=record.text("sentence_bad"),
        paradigm=paradigm,
        phenomenon=record.value("linguistics_term", str, paradigm),
    )


def _paradigm_names(paths: Sequence[str]) -> dict[str, str]:
    """Returns path -> name of the paradigm that the file is."""
    counts = collections.Counter(map(_stem, paths))
    return {x: _stem(x) if counts[_stem(x)] == 1 else x for x in paths}


def _stem(path: str) -> str:
    """Returns a file's name without its extensions, a.b for a.b.jsonl.gz."""
    name = os.path.basename(path)
    if os.path.splitext(name)[1].lower() in tables.COMPRESSIONS:
        name = os.path.splitext(name)[0]
    return os.path.splitext(name)[0]


def minimal_pairs(
    config: AnalysisConfig, scorer: Scorer, pairs: Sequence[MinimalPair]
) -> Report:
    """Compares pairs by each score of a model."""
    scores = config.scores or scorer.scores
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    found = sentence_scores.of_texts(scorer, texts, scores)
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
        whole = bootstrap(lambda i: values[i].mean(), len(values), config)
    return Accuracies(
        whole=_percent(whole),
        num_ties=int((good == bad).sum()),
        phenomena={k: _percent(mean(x)) for k, x in sorted(phenomena.items())},
        paradigms={k: _percent(x) for k, x in paradigms.items()},
    )


def _percent(interval: Interval) -> Interval:
    return Interval(*(100 * x for x in interval))


def _report(
    accuracies: Mapping[str, Accuracies],
    pairs: Sequence[MinimalPair],
    scores: Sequence[str],
) -> Report:
    totals = {x: accuracies[sentence_scores.title(x, _TOTAL)] for x in scores}
    return Report(
        what="minimal_pairs",
        headline={"accuracy (%)": totals[scores[0]].whole.value},
        results={
            "num_pairs": len(pairs),
            "own_score": scores[0],
            "scores": accuracies,
        },
        tables=[
            _whole_table(accuracies, pairs, scores[0]),
            _table("phenomenon", totals, [pair.phenomenon for pair in pairs]),
            _table("paradigm", totals, [pair.paradigm for pair in pairs]),
        ],
        plots={"phenomena": functools.partial(_draw, totals=totals)},
    )


def _whole_table(
    accuracies: Mapping[str, Accuracies],
    pairs: Sequence[MinimalPair],
    own_score: str,
) -> Table:
    count = len({pair.paradigm for pair in pairs})
    title = (
        f"Accuracy in percent, mean of {count:,} paradigms, with 95 % "
        f"intervals, of {len(pairs):,} pairs. The model's own score: "
        f"{own_score}."
    )
    rows = [
        [name, shown(found.whole, 1), found.num_ties]
        for name, found in accuracies.items()
    ]
    return Table(title, ("score", "accuracy", "ties"), rows)


def _table(
    kind: str, totals: Mapping[str, Accuracies], names: Sequence[str]
) -> Table:
    """Makes the table by phenomenon or paradigm; `names` has one a pair."""
    columns = [
        found.phenomena if kind == "phenomenon" else found.paradigms
        for found in totals.values()
    ]
    counts = collections.Counter(names)
    rows = [
        [name, counts[name], *(shown(column[name], 1) for column in columns)]
        for name in columns[0]
    ]
    title = f"Accuracy by {kind}, by the total of each score."
    return Table(title, (kind, "pairs", *totals), rows)


def _draw(axes: "Axes", totals: Mapping[str, Accuracies]) -> None:
    """Draws the accuracy on each phenomenon; the line is chance."""
    series = {name: [*x.phenomena.values()] for name, x in totals.items()}
    names = list(next(iter(totals.values())).phenomena)
    plotting.draw_intervals(axes, names, series)
    plotting.set_style(axes, "Minimal pairs", "accuracy, %")
    axes.axvline(_CHANCE, color=plotting.GREY, zorder=0)
