"""Plots of a run: learning curves and confusion matrices; by matplotlib."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from electra_tf.finetune.run import predictions, report
from electra_tf.finetune.run.experiment import Experiment
from electra_tf.finetune.run.report import Confusion, Results
from electra_tf.training import callbacks
from electra_tf.util import console, files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREY, INK = "#1f5fa8", "#b9c2cc", "#222222"
_MARGIN = 0.12  # inches
_MIN_LOG_RATIO = 8.0  # ratio of greatest to least loss on a linear axis
_MAX_LABEL_LENGTH = 32  # characters of a label
_CHARACTER_WIDTH = 0.083  # width of a character, inches
_MAX_LARGE_LABELS = 12  # labels whose cells have room for shares


class _Cells(NamedTuple):
    """Sizes of the cells of a confusion matrix."""

    labels: list[str]
    width: float
    height: float
    is_rotated: bool
    is_small: bool


class Curve(NamedTuple):
    """Learning curve of a trial."""

    trial: int
    losses: Mapping[int, float]
    values: Mapping[int, float]


def check() -> None:
    """Raises without matplotlib."""
    import matplotlib  # noqa: F401


def write(
    experiment: Experiment,
    directories: Sequence[pathlib.Path],
    results: Results,
    confusions: Sequence[Confusion],
) -> None:
    """Draws <task>_curves.png, and <task>_confusion.png of classifications."""
    target = predictions.output_directory(experiment.config, "results")
    for data in experiment.tasks:
        task, metric = data.task, data.task.get_scorer().main_metric
        best = report.best_trial(data, results)
        split = () if best is None else (data.dev[0].title,)
        curves = [
            read_curve(path, result["trial"], task.name, metric, *split)
            for path, result in zip(directories, results, strict=True)
        ]
        figure = draw_curves(task.name, metric, curves, best)
        _save(figure, target / f"{task.name}_curves.png")
        mine = [x for x in confusions if x.task_name == task.name]
        if mine:
            path = target / f"{task.name}_confusion.png"
            _save(draw_confusions(mine), path)
    console.say(f"Plots: {target}/*.png")


def _make_figure(width: float, height: float) -> "Figure":
    """Makes a figure without a window; sizes are in inches."""
    from matplotlib.figure import Figure

    figure = Figure((width, height), dpi=150, layout="constrained")
    figure.get_layout_engine().set(w_pad=_MARGIN, h_pad=_MARGIN)
    return figure


def _save(figure: "Figure", path: pathlib.Path) -> None:
    """Writes a figure, cropped to what is drawn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", pad_inches=_MARGIN)


def read_curve(
    directory: pathlib.Path,
    trial: int,
    task_name: str,
    metric: str,
    split: str | None = None,
) -> Curve:
    """Reads the learning curve that a trial has logged."""
    losses = {}
    for line in callbacks.read_log(directory / callbacks.METRICS_FILE):
        if f"{task_name}_loss" in line:
            losses[line["step"]] = line[f"{task_name}_loss"]
    path = directory / "evaluations.json"
    evaluations = files.read_json(path) if split and path.exists() else []
    values = {x["step"]: x["metrics"][split][metric] for x in evaluations}
    return Curve(trial, losses, values)


def draw_curves(
    task_name: str, metric: str, curves: Sequence[Curve], best: int | None
) -> "Figure":
    """Draws losses, and the metric on the dev split, over the updates."""
    figure = _make_figure(10.0, 4.2)
    has_values = any(curve.values for curve in curves)
    axes = figure.subplots(1, 1 + has_values, sharex=True, squeeze=False)[0]
    order = sorted(curves, key=lambda curve: curve.trial == best)
    _draw_lines(axes[0], [(x.trial, x.losses) for x in order], best)
    _set_titles(axes[0], "loss in training")
    _use_log_scale(axes[0], [y for x in curves for y in x.losses.values()])
    if has_values:
        lines = [(x.trial, x.values) for x in order]
        _draw_lines(axes[1], lines, best, marker="o")
        _set_titles(axes[1], f"{metric} on dev")
        _mark_best(axes[1], dict(lines).get(best, {}))
    if len(curves) > 1 and best is not None:
        axes[-1].legend(frameon=False, loc="best", fontsize=9)
    title = f"{task_name}, {len(curves)} trial" + "s" * (len(curves) > 1)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold")
    return figure


def draw_confusions(confusions: Sequence[Confusion]) -> "Figure":
    """Draws the counts of each split, shaded by their share of the row."""
    cells = _cells(confusions[0].labels)
    size, length = len(cells.labels), max(map(len, cells.labels))
    width = 1.2 + cells.width * size + _CHARACTER_WIDTH * length
    height = 1.6 + cells.height * size
    height += (
        0.75 * _CHARACTER_WIDTH * length * cells.is_rotated
    )  # the sine of 45
    figure = _make_figure(width * len(confusions), height)
    axes = figure.subplots(1, len(confusions), squeeze=False)[0]
    for one, confusion in zip(axes, confusions, strict=True):
        _draw_cells(one, confusion, cells)
    return figure


def _cells(labels: Sequence[str]) -> _Cells:
    """Chooses sizes so that labels do not run into each other."""
    shown = [_shortened(label) for label in labels]
    is_small = len(labels) > _MAX_LARGE_LABELS
    width, height = (0.5, 0.38) if is_small else (1.1, 0.7)
    is_rotated = max(map(len, shown)) * _CHARACTER_WIDTH > width
    return _Cells(shown, width, height, is_rotated, is_small)


def _shortened(label: str) -> str:
    """Returns a label with the middle left out where it is long."""
    if len(label) <= _MAX_LABEL_LENGTH:
        return label
    half = _MAX_LABEL_LENGTH // 2
    return f"{label[:half]}\N{HORIZONTAL ELLIPSIS}{label[1 - half :]}"


def _draw_lines(
    axes: "Axes",
    lines: Iterable[tuple[int, Mapping[int, float]]],
    best: int | None,
    **style: str,
) -> None:
    """Draws a line for each trial, and highlights that of the best one."""
    names = {"other trials": GREY}
    for trial, line in lines:
        is_best = trial == best
        label = f"trial {trial}, the best" if is_best else "other trials"
        is_new = is_best or names.pop(label, None)
        axes.plot(
            list(line),
            list(line.values()),
            color=BLUE if is_best else GREY,
            linewidth=2.2 if is_best else 1.4,
            markersize=5 if is_best else 3.5,
            label=label if is_new else None,
            **style,
        )


def _set_titles(axes: "Axes", title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, color=INK)
    axes.set_xlabel("updates", fontsize=9.5, color=INK)
    axes.tick_params(labelsize=9, color=GREY, labelcolor=INK)
    axes.grid(axis="y", color="#e6e9ed")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _use_log_scale(axes: "Axes", losses: Sequence[float]) -> None:
    """Makes the axis logarithmic where first losses dwarf the others."""
    from matplotlib.ticker import LogLocator, NullLocator

    positive = [loss for loss in losses if loss > 0]
    if not positive or max(positive) < _MIN_LOG_RATIO * min(positive):
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def _mark_best(axes: "Axes", values: Mapping[int, float]) -> None:
    """Writes the greatest value beside it."""
    if not values:
        return
    step = max(values, key=values.__getitem__)
    axes.annotate(
        f"{values[step]:.1f}",
        (step, values[step]),
        xytext=(0, 8),
        textcoords="offset points",
        ha="center",
        color=BLUE,
        fontsize=10,
        weight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )
    axes.margins(y=0.15)


def _draw_cells(axes: "Axes", confusion: Confusion, cells: _Cells) -> None:
    counts, labels = (
        confusion.counts,
        [x.replace("$", r"\$") for x in cells.labels],
    )
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    gaps = {"edgecolors": "white", "linewidth": 1 if cells.is_small else 2}
    axes.pcolormesh(shares, cmap="Blues", vmin=0, vmax=1, **gaps)
    axes.invert_yaxis()
    for (row, column), share in np.ndenumerate(shares):
        axes.text(
            column + 0.5,
            row + 0.5,
            _cell_text(counts[row, column], share, cells),
            ha="center",
            va="center",
            fontsize=7 if cells.is_small else 9.5,
            color="white" if share > 0.5 else INK,
        )
    ticks, rotation = np.arange(len(labels)) + 0.5, {}
    if cells.is_rotated:
        rotation = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(ticks, labels, **rotation)
    axes.set_yticks(ticks, labels)
    axes.tick_params(length=0, labelsize=9.5, labelcolor=INK)
    axes.set_xlabel("predicted", fontsize=9.5, color=INK)
    axes.set_ylabel("gold", fontsize=9.5, color=INK)
    axes.set_title(confusion.title, loc="left", fontsize=11, weight="bold")
    for spine in axes.spines.values():
        spine.set_visible(False)


def _cell_text(count: int, share: float, cells: _Cells) -> str:
    """Formats a count and its share; in small cells only counts above 0."""
    if cells.is_small:
        return f"{count:,}" * bool(count)
    return f"{count:,}" + f"\n{100 * share:.0f} %" * bool(share)
