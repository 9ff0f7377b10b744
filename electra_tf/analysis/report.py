"""The report of an analysis: figures with intervals, tables, plots.

<output_dir>/report.json    what was analysed, and all figures
<output_dir>/report.md      the tables and the plots
<output_dir>/<plot>.png
"""

import dataclasses
import importlib
import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
from etils import epath

import electra_tf
from electra_tf.checkpoint import calibration, loading
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console, files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "#b9c2cc"

_MIN_WITHOUT_DECIMALS = 1000
_Z = 1.959964  # of a normal distribution, two-sided 95 %


class Interval(NamedTuple):
    """A figure and its 95 % interval, formatted as "1.50 [1.25, 1.75]"."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        if np.isnan(self.value):
            return "none"
        value, low, high = (f"{x:{spec}}" for x in self)
        return f"{value} [{low}, {high}]"


UNKNOWN = Interval(np.nan, np.nan, np.nan)


def bootstrap(
    statistic: Callable[[np.ndarray], float | Sequence[float]],
    num_items: int,
    config: AnalysisConfig,
) -> list[Interval]:
    """Computes statistics, and their intervals from the same resamples.

    Shapes: the statistic takes indices [num_items] and returns [K] or a number.
    """
    random = np.random.default_rng(config.seed)
    draws = [
        np.atleast_1d(statistic(random.integers(num_items, size=num_items)))
        for _ in range(config.num_resamples)
    ]
    intervals = []
    values = np.atleast_1d(statistic(np.arange(num_items)))
    for value, column in zip(values, np.transpose(draws), strict=True):
        ends = (np.nan, np.nan)
        if not np.isnan(column).all():
            ends = np.nanpercentile(column, [2.5, 97.5])
        intervals.append(Interval(float(value), *map(float, ends)))
    return intervals


def wilson(successes: float, trials: int) -> Interval:
    """Computes a proportion and its score interval (Wilson, 1927)."""
    if not trials:
        return UNKNOWN
    share, z2 = successes / trials, _Z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    variance = share * (1 - share) / trials + z2 / (4 * trials**2)
    half = _Z * math.sqrt(variance) / (1 + z2 / trials)
    low, high = max(0.0, centre - half), min(1.0, centre + half)  # rounding
    return Interval(share, min(low, share), max(high, share))


class Table(NamedTuple):
    """A table of a report."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | float | Interval]]

    def cells(self) -> list[list[str]]:
        """Returns the header and the rows as text."""
        return [list(self.header), *([*map(_cell, x)] for x in self.rows)]


def _cell(value: str | float | Interval) -> str:
    """Formats a number with three digits, an integer with all its digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, Interval):
        return f"{value:.3f}"
    is_integer = isinstance(value, int | np.integer)
    if is_integer or abs(value) >= _MIN_WITHOUT_DECIMALS:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


class Report(NamedTuple):
    """The results of an analysis."""

    what: str
    headline: Mapping[str, float]
    results: Mapping[str, Any]
    tables: Sequence[Table]
    plots: Mapping[str, Callable[["Axes"], None]] = {}


def analyze(config: AnalysisConfig) -> None:
    """Analyses a model: prints the tables and, if asked to, writes them."""
    if config.output_dir:
        epath.Path(config.output_dir).mkdir(parents=True, exist_ok=True)
    module = importlib.import_module(f"electra_tf.analysis.{config.what}")
    report = module.run(config)
    for table in report.tables:
        title = textwrap.fill(table.title, 79)
        console.say(f"{title}\n\n{console.aligned_table(table.cells())}")
    if config.output_dir:
        write(report, config.output_dir, _metadata(config))
        console.say(f"Wrote {config.output_dir}/report.json, report.md, plots")


def write(report: Report, directory: str, content: Mapping[str, Any]) -> None:
    """Writes the files of a report into a directory that exists."""
    root = epath.Path(directory)
    model = "".join(f"- {k}: {v}\n" for k, v in content["model"].items())
    text = [f"# {report.what}\n", model]
    for table in report.tables:
        text += [f"{table.title}\n", console.markdown_table(table.cells())]
    for name, draw in report.plots.items():
        files.atomic_write_bytes(root / f"{name}.png", _png(draw))
        text.append(f"![{name}.png]({name}.png)\n")
    files.atomic_write_text(root / "report.md", "\n".join(text))
    values = {
        "what": report.what,
        "headline": report.headline,
        "results": report.results,
        **content,
    }
    files.write_json(root / "report.json", plain(values))


def plain(value: Any) -> Any:  # noqa: ANN401 (any value)
    """Converts to JSON: named tuples to objects, NaN to null."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _metadata(config: AnalysisConfig) -> dict[str, Any]:
    weights = loading.read(config.model, vocab_file=config.vocab_file)
    sizes = loading.sizes(weights).items()
    stored = calibration.read_for_checkpoint(weights.origin, weights.step)
    return {
        "model": {
            "checkpoint": weights.origin,
            "step": weights.step,
            **{f"weights of the {name}": f"{n:,}" for name, n in sizes},
            "vocabulary": weights.vocabulary
            and f"sha256 {weights.vocabulary.sha256}",
            "temperature": stored.temperature if stored else 1.0,
        },
        "config": dataclasses.asdict(config),
        "versions": {
            "electra_tf": electra_tf.__version__,
            "tensorflow": tf.__version__,
        },
    }


def draw_intervals(
    axes: "Axes",
    labels: Sequence[str],
    series: Mapping[str, Sequence[Interval]],
    *,
    title: str,
    line: float,
) -> None:
    """Draws figures and their intervals, a row for each label; and a line."""
    for number, (name, intervals) in enumerate(series.items()):
        shift = 0.8 * ((number + 0.5) / len(series) - 0.5)
        value, low, high = np.reshape(intervals, (-1, 3)).T
        rows = np.arange(len(labels)) + shift
        ends = np.maximum([value - low, high - value], 0)
        axes.errorbar(value, rows, xerr=ends, fmt="o", ms=4, label=name)
    axes.set_yticks(range(len(labels)), [x.replace("$", r"\$") for x in labels])
    axes.invert_yaxis()
    axes.figure.set_figheight(1.5 + 0.3 * len(labels))
    axes.set_title(title)
    axes.axvline(line, color=GREY, zorder=0)
    if len(series) > 1:
        axes.legend(frameon=False)


def draw_curves(
    axes: "Axes",
    curves: Mapping[str, np.ndarray],
    xlabel: str,
    ylabel: str,
) -> None:
    """Draws curves, [points, 2] each."""
    for name, points in curves.items():
        axes.plot(*np.transpose(points), ".-", label=name)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(frameon=False)


def _png(draw: Callable[["Axes"], None]) -> bytes:
    """Draws a plot without a window."""
    from matplotlib.figure import Figure

    figure = Figure((7.0, 4.4), dpi=150, layout="constrained")
    draw(figure.subplots())
    content = io.BytesIO()
    figure.savefig(content, format="png", bbox_inches="tight")
    return content.getvalue()


def shown(interval: Interval, digits: int = 3) -> str:
    return f"{interval:.{digits}f}"
