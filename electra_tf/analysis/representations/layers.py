"""Figures by layer, of a model and its twin: indices, tables, plots."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from electra_tf.analysis.reporting.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL, TWIN = "model", "twin"
"""Names of networks."""
LABEL = "layer (0: embeddings)"
"""Axis label."""

_COLOURS = {MODEL: "#1f5fa8", TWIN: "#c8553d"}


def have_equal_depth(sizes: Mapping[str, int]) -> bool:
    """Returns whether there is a twin with as many layers as the model."""
    return TWIN in sizes and sizes[TWIN] == sizes[MODEL]


def layer_slices(sizes: Mapping[str, int]) -> dict[str, slice]:
    """Returns the slice of each network's layers among those of all
    networks."""
    ends = np.cumsum([*sizes.values()])
    return {
        name: slice(end - sizes[name], end)
        for name, end in zip(sizes, ends, strict=True)
    }


def columns(
    figures: Mapping[str, Sequence[Interval]],
) -> tuple[list[str], list[list[str | float]]]:
    """Makes a table with one row per layer."""
    header = ["layer"]
    for name in figures:
        header += [name, "low", "high"]
    depth = max(map(len, figures.values()))
    rows: list[list[str | float]] = [[str(layer)] for layer in range(depth)]
    for values in figures.values():
        blank = [("", "", "")] * (depth - len(values))
        for row, cells in zip(rows, [*values, *blank], strict=True):
            row += cells
    return header, rows


def draw_line(
    axes: "Axes", name: str, values: Sequence[Interval], label: str = ""
) -> None:
    """Draws a figure by layer, with its intervals."""
    numbers = range(len(values))
    axes.plot(
        numbers,
        [x.value for x in values],
        color=_COLOURS[name],
        linestyle="--" if label else "-",
        marker="o",
        label=label or name,
    )
    lows, highs = [x.low for x in values], [x.high for x in values]
    axes.fill_between(numbers, lows, highs, color=_COLOURS[name], alpha=0.2)
    axes.set_xticks(numbers)
