"""The report of an analysis: complete results in JSON, tables, and plots.

<output_dir>/report.json   what was analysed, the figures, their intervals
<output_dir>/report.md     the tables, and the plots
<output_dir>/<plot>.png
"""

import dataclasses
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from etils import epath

from electra_tf.util import console, files, plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE_NAME = "report.json"

_TEXT = "report.md"
_WIDTH, _HEIGHT = 7.0, 4.4  # of a plot, inches
_MIN_WITHOUT_DECIMALS = 1000  # from here on decimals say nothing


class Table(NamedTuple):
    """A table of a report."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """The results of an analysis."""

    what: str
    headline: Mapping[str, float]
    results: Mapping[str, Any]
    tables: Sequence[Table]
    plots: Mapping[str, Callable[["Axes"], None]] = dataclasses.field(
        default_factory=dict
    )


def as_text(report: Report) -> str:
    """Returns the tables as text for a terminal."""
    return "\n".join(
        f"{textwrap.fill(table.title, 79)}\n\n"
        + console.aligned_table(_cells(table))
        for table in report.tables
    )


def _as_markdown(
    report: Report, facts: Mapping[str, str], plots: Sequence[str]
) -> str:
    """Returns facts about the model, the tables and links to the plots."""
    parts = [f"# {report.what}\n"]
    parts.append("".join(f"- {key}: {value}\n" for key, value in facts.items()))
    for table in report.tables:
        parts += [f"{table.title}\n", console.markdown_table(_cells(table))]
    parts += [f"![{name}]({name})\n" for name in plots]
    return "\n".join(parts)


def write(report: Report, directory: str, content: Mapping[str, Any]) -> None:
    """Writes the files of a report."""
    root = epath.Path(directory)
    files.ensure_writable(root)
    plots = _write_plots(report, root)
    facts = {key: str(value) for key, value in content["model"].items()}
    files.atomic_write_text(root / _TEXT, _as_markdown(report, facts, plots))
    values = {
        "what": report.what,
        "headline": report.headline,
        "results": report.results,
        **content,
    }
    files.write_json(root / FILE_NAME, plain(values))


def plain(value: Any) -> Any:  # noqa: ANN401 (any value)
    """Converts to JSON: NumPy to lists, named tuples to objects, NaN to
    null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _write_plots(report: Report, root: epath.Path) -> list[str]:
    """Draws the plots; without matplotlib warns and says how to install it."""
    if report.plots and not plotting.is_available():
        console.warn(
            f"{len(report.plots)} plots are left out: they need matplotlib, "
            f"which is not installed. Run: {plotting.HOW_TO_INSTALL}"
        )
        return []
    for name, draw in report.plots.items():
        figure = plotting.make_figure(_WIDTH, _HEIGHT)
        axes = figure.subplots()
        plotting.set_style(axes, "")
        draw(axes)
        if axes.images:  # the grid would be drawn over them
            axes.grid(False)
        plotting.save(figure, root / f"{name}.png")
    return [f"{name}.png" for name in report.plots]


def _cells(table: Table) -> list[list[str]]:
    rows = [[_format_cell(cell) for cell in row] for row in table.rows]
    return [[*table.header], *rows]


def _format_cell(cell: str | float) -> str:
    """Writes a number with three digits, an integer with all its digits."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int | np.integer) or abs(cell) >= _MIN_WITHOUT_DECIMALS:
        return f"{cell:,.0f}"
    return f"{cell:#.3g}".rstrip(".")
