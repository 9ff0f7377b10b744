"""Tables and plot of an analysis of prompts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.util import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AVERAGE = "average of all"

_KINDS = ("raw", "calibrated")


class ScoreFindings(NamedTuple):
    """How well a score classifies."""

    empty: np.ndarray
    raw: Sequence[Interval]
    calibrated: Sequence[Interval]
    raw_shares: Sequence[float]
    calibrated_shares: Sequence[float]
    few_shot: Interval | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """The results of an analysis of prompts."""

    num_examples: int
    shots: int
    templates: Sequence[str]
    label_words: Mapping[str, str]
    majority: Interval
    scores: Mapping[str, ScoreFindings]


def make(found: Findings) -> Report:
    """Makes the report."""
    headline = {}
    for name, findings in found.scores.items():
        headline[f"{name} accuracy, raw"] = findings.raw[-1].value
        headline[f"{name} accuracy, calibrated"] = findings.calibrated[-1].value
    tables = [_template_table(found), _share_table(found)]
    if found.shots:
        tables.append(_few_shot_table(found))
    return Report(
        what="prompts",
        headline=headline,
        results=vars(found),
        tables=tables,
        plots={"prompts": lambda axes: _draw(axes, found)},
    )


def _template_table(found: Findings) -> Table:
    names = [*found.templates, AVERAGE]
    rows = [
        [score, name, *x.raw[i], *x.calibrated[i]]
        for score, x in found.scores.items()
        for i, name in enumerate(names)
    ]
    rows.append(["-", "largest class", *found.majority, "", "", ""])
    return Table(
        f"Zero-shot accuracy of {found.num_examples:,} examples, by template, "
        "95 % interval",
        "score,template,raw,low,high,calibrated,low,high".split(","),
        rows,
    )


def _share_table(found: Findings) -> Table:
    rows = [
        [score, kind, *getattr(x, f"{kind}_shares")]
        for score, x in found.scores.items()
        for kind in _KINDS
    ]
    words = [f"{k}: {word}" for k, word in found.label_words.items()]
    return Table(
        "Share of each label among the predictions, scores averaged over "
        "templates",
        ["score", "kind", *words],
        rows,
    )


def _few_shot_table(found: Findings) -> Table:
    rows = [[score, *x.few_shot] for score, x in found.scores.items()]
    return Table(
        f"Logistic regression over label scores, {found.shots} examples of "
        "each class: mean accuracy over draws, 95 % interval over draws",
        ["score", "accuracy", "low", "high"],
        rows,
    )


def _draw(axes: "Axes", found: Findings) -> None:
    """Draws the accuracy of each score; the line is the largest class."""
    series = {
        kind: [getattr(x, kind)[-1] for x in found.scores.values()]
        for kind in _KINDS
    }
    plotting.draw_intervals(axes, list(found.scores), series)
    title = "Prompts, all templates averaged; the line: largest class"
    plotting.set_style(axes, title, "accuracy")
    axes.set_xlim(0, 1)
    axes.axvline(found.majority.value, color=plotting.GREY, zorder=0)
