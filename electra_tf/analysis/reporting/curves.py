"""The main figures of an analysis over the training of a model."""

import functools
import re
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from electra_tf.analysis.reporting.reports import Report, Table
from electra_tf.util import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Point(NamedTuple):
    """The main figures of a checkpoint."""

    step: int
    flops: float
    share: float
    is_milestone: bool
    headline: Mapping[str, float] = types.MappingProxyType({})


def report(what: str, points: Sequence[Point]) -> Report:
    """Makes a report of the curve."""
    names = list(points[-1].headline)
    rows = [
        [
            f"{point.step:,}" + " *" * point.is_milestone,
            f"{100 * point.share:g} %",
            f"{point.flops:.3e}",
            *(point.headline.get(name, float("nan")) for name in names),
        ]
        for point in points
    ]
    header = ("step", "of training", "FLOPs", *names)
    title = f"{what} over the training; * is a milestone."
    return Report(
        what=what,
        headline=points[-1].headline,
        results={"checkpoints": points},
        tables=[Table(title, header, rows)],
        plots={
            f"curve_{_file_name(name)}": functools.partial(
                _draw, points=points, what=what, name=name
            )
            for name in names
        },
    )


def _file_name(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def _draw(axes: "Axes", points: Sequence[Point], what: str, name: str) -> None:
    """Draws a figure over FLOPs, with the share of training at milestones."""
    flops = [point.flops for point in points]
    values = [point.headline.get(name, float("nan")) for point in points]
    axes.plot(flops, values, "o-", color=plotting.BLUE, markerfacecolor="white")
    plotting.set_style(axes, f"{what}: {name}", "training FLOPs")
    _use_log_scale(axes)
    axes.margins(y=0.15)
    for point, value in zip(points, values, strict=True):
        if point.is_milestone:
            axes.plot(point.flops, value, "o", color=plotting.BLUE)
            axes.annotate(
                f"{100 * point.share:g} %",
                (point.flops, value),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color=plotting.INK,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )


def _use_log_scale(axes: "Axes") -> None:
    """Makes the axis of FLOPs logarithmic, with labels that do not overlap."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0e}")
