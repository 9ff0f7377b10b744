"""Plots in one style, made with matplotlib."""

import importlib.util
import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from electra_tf.util import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREY, INK, FAINT = "#1f5fa8", "#b9c2cc", "#222222", "#e6e9ed"
COLOURS = (BLUE, "#c2571a", "#3b8a5a", "#8a4fa3", "#8c8c1f", "#444444")
"""Colours of several series, which the colour-blind can tell apart."""

HOW_TO_INSTALL = "python -m pip install -e '.[plots]'"

_DPI = 150
_MARGIN = 0.12  # inches
_ROW = 0.3  # height of a row of `draw_intervals`, inches

Triple = tuple[float, float, float]
"""A value, and both ends of its interval."""


def is_available() -> bool:
    """Returns whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def make_figure(width: float, height: float) -> "Figure":
    """Makes a figure without a window; sizes are in inches."""
    from matplotlib.figure import Figure

    figure = Figure((width, height), dpi=_DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=_MARGIN, h_pad=_MARGIN)
    return figure


def escaped(text: str) -> str:
    """Escapes a text, so that matplotlib takes no part of it for math."""
    return text.replace("$", r"\$")


def set_style(axes: "Axes", title: str, x_label: str = "") -> None:
    """Sets the title and the unobtrusive axes of a plot."""
    axes.set_title(title, loc="left", fontsize=10.5, color=INK)
    axes.set_xlabel(x_label, fontsize=9.5, color=INK)
    axes.tick_params(labelsize=9, color=GREY, labelcolor=INK)
    axes.grid(axis="y", color=FAINT)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)


def draw_intervals(
    axes: "Axes", labels: Sequence[str], series: Mapping[str, Sequence[Triple]]
) -> None:
    """Draws values and their intervals, one row per label."""
    if not labels:
        return
    labels = list(map(escaped, labels))
    height = 0.8 / max(len(series), 1)
    for number, (name, triples) in enumerate(series.items()):
        shift = height * (number - (len(series) - 1) / 2)
        values, lows, highs = zip(*triples, strict=True)
        below = [max(x - low, 0.0) for x, low in zip(values, lows, strict=True)]
        above = [max(h - x, 0.0) for x, h in zip(values, highs, strict=True)]
        axes.errorbar(
            values,
            [row + shift for row in range(len(labels))],
            xerr=[below, above],
            fmt="o",
            markersize=4,
            color=COLOURS[number % len(COLOURS)],
            label=name,
        )
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    rows = len(labels) * max(1, len(series) / 2)
    axes.figure.set_figheight(1.5 + _ROW * rows)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=9, loc="best")


def save(figure: "Figure", path: files.StrPath) -> None:
    """Writes a figure as PNG, cropped to what is drawn."""
    files.ensure_writable(os.path.dirname(path) or ".")
    content = io.BytesIO()
    figure.savefig(
        content, format="png", bbox_inches="tight", pad_inches=_MARGIN
    )
    files.atomic_write_bytes(path, content.getvalue())
