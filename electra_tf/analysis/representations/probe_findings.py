"""Accuracies of linear probes by layer, with their table and plot.

Letters in shapes: S layers of all networks, including the embeddings; W items
to classify, words or sentences; H hidden.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.analysis.reporting.reports import Table
from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.analysis.representations import layers, probes
from electra_tf.analysis.representations.layers import MODEL, TWIN
from electra_tf.config.analysis import AnalysisConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BASELINE = "#888888"


class Hits(NamedTuple):
    """Which items are classified correctly.

    Shapes: groups [W].
    """

    groups: np.ndarray
    is_right: np.ndarray


class Labelled(NamedTuple):
    """Items as probes see them.

    Shapes: groups [W], labels [W], layers [W, H].
    """

    groups: np.ndarray
    labels: np.ndarray
    layers: Sequence[np.ndarray]


class ProbeFindings(NamedTuple):
    """Accuracies of probes."""

    num_learnt: int
    num_tested: int
    baselines: Mapping[str, Interval]
    accuracies: Mapping[str, list[Interval]]
    differences: list[Interval]


def of_balanced_labels(
    train: Labelled,
    test: Labelled,
    sizes: Mapping[str, int],
    config: AnalysisConfig,
) -> ProbeFindings:
    """Fits a probe for each layer, and computes the accuracies."""
    predicted = [
        probes.fit_classifier(states, train.labels).predict(test_states)
        for states, test_states in zip(train.layers, test.layers, strict=True)
    ]
    constant = np.full_like(test.labels, test.labels[0])
    is_right = np.array([constant, *predicted]) == test.labels
    baselines = ("always the same answer",)
    hits = Hits(test.groups, is_right)
    return find(hits, len(train.labels), baselines, sizes, config)


def find(
    hits: Hits,
    num_learnt: int,
    baselines: Sequence[str],
    sizes: Mapping[str, int],
    config: AnalysisConfig,
) -> ProbeFindings:
    """Computes the accuracies of probes, and intervals over groups."""
    found = probes.accuracies(hits.is_right, hits.groups, config)
    count = len(baselines)
    differences: list[Interval] = []
    if layers.have_equal_depth(sizes):
        model_hits, twin_hits = np.split(hits.is_right[count:].astype(float), 2)
        differences = probes.accuracies(
            model_hits - twin_hits, hits.groups, config
        )
    return ProbeFindings(
        num_learnt=num_learnt,
        num_tested=len(hits.groups),
        baselines=dict(zip(baselines, found, strict=False)),
        accuracies={
            name: found[count:][rows]
            for name, rows in layers.layer_slices(sizes).items()
        },
        differences=differences,
    )


def table(task: str, found: ProbeFindings, *, items: str = "words") -> Table:
    """Makes the table of a task, with a row for each layer and baseline."""
    columns = dict(found.accuracies)
    if found.differences:
        columns[f"{MODEL} - {TWIN}"] = found.differences
    header, rows = layers.columns(columns)
    blank = [""] * (len(header) - 4)
    rows += [[name, *x, *blank] for name, x in found.baselines.items()]
    return Table(
        f"Linear probes, {task}: accuracy of {found.num_tested:,} {items}, "
        f"trained on {found.num_learnt:,}, 95 % interval over sentences; "
        f"baselines: {', '.join(found.baselines)}",
        header,
        rows,
    )


def plots(
    found: Mapping[str, ProbeFindings],
) -> dict[str, Callable[["Axes"], None]]:
    """Returns name -> plot of each task."""
    return {
        f"probes_{task.replace(' ', '_')}": functools.partial(
            _draw, task=task, found=one
        )
        for task, one in found.items()
    }


def _draw(axes: "Axes", task: str, found: ProbeFindings) -> None:
    """Draws the accuracies by layer, and a line for each baseline."""
    for name, accuracies in found.accuracies.items():
        layers.draw_line(axes, name, accuracies)
    styles = zip(found.baselines.items(), (":", "--"), strict=False)
    for (name, accuracy), style in styles:
        axes.axhline(
            accuracy.value, color=_BASELINE, linestyle=style, label=name
        )
    axes.set_title(f"Linear probes by layer: {task}")
    axes.set_ylabel("accuracy")
    axes.set_xlabel(layers.LABEL)
    axes.legend()
