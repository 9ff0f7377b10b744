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
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from etils import epath

import electra_tf
from electra_tf.checkpoint import loading
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util import console, files

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


def bootstrap(
    statistic: Callable[[np.ndarray], float | Sequence[float]],  # [n] -> [K]
    num_items: int,
    config: AnalysisConfig,
) -> list[Interval]:
    """Computes statistics of indices, and intervals by the same resamples."""
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
        return Interval(np.nan, np.nan, np.nan)
    share, z2 = successes / trials, _Z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    variance = share * (1 - share) / trials + z2 / (4 * trials**2)
    half = _Z * math.sqrt(variance) / (1 + z2 / trials)
    low, high = max(0.0, centre - half), min(1.0, centre + half)  # rounding
    return Interval(share, min(low, share), max(high, share))


class Table(NamedTuple):
    """A table of figures: name of a row -> name of a column -> figure.

    It leaves out figures that are arrays or mappings.
    """

    title: str
    rows: Mapping[str, Mapping[str, Any]]
    digits: int = 3

    def cells(self) -> list[list[str]]:
        columns = {
            name: name.replace("_", " ")
            for row in self.rows.values()
            for name, value in row.items()
            if not isinstance(value, np.ndarray | Mapping)
        }
        rows = [
            [name, *(self._format(row.get(x)) for x in columns)]
            for name, row in self.rows.items()
        ]
        return [["", *columns.values()], *rows]

    def _format(self, value: float | Interval | None) -> str:
        """Formats a number with three digits, an integer with all of its."""
        if value is None:
            return ""
        if isinstance(value, Interval):
            return f"{value:.{self.digits}f}"
        if isinstance(value, int | np.integer) or abs(value) >= 1000:
            return f"{value:,.0f}"
        return f"{value:#.3g}".rstrip(".")


class Plot(NamedTuple):
    """Curves by name, [points, 2] each."""

    curves: Mapping[str, np.ndarray]
    xlabel: str
    ylabel: str

    def png(self) -> bytes:
        from matplotlib.figure import Figure

        figure = Figure((7.0, 4.4), dpi=150, layout="constrained")
        axes = figure.subplots()
        for name, points in self.curves.items():
            axes.plot(*np.transpose(points), ".-", label=name)
        axes.set(xlabel=self.xlabel, ylabel=self.ylabel)
        axes.legend(frameon=False)
        content = io.BytesIO()
        figure.savefig(content, format="png", bbox_inches="tight")
        return content.getvalue()


class Report(NamedTuple):
    results: Mapping[str, Any]
    tables: Sequence[Table]
    plots: Mapping[str, Plot] = {}


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
        write(report, config)
        console.say(f"Wrote {config.output_dir}/report.json, report.md, plots")


def write(report: Report, config: AnalysisConfig) -> None:
    root = epath.Path(config.output_dir)
    weights = loading.read(config.model, vocab_file=config.vocab_file)
    sizes = loading.sizes(weights).items()
    stored = loading.read_calibration(weights.origin, weights.step)
    model = {
        "checkpoint": weights.origin,
        "step": weights.step,
        **{f"weights of the {name}": f"{n:,}" for name, n in sizes},
        "vocabulary": weights.vocabulary and weights.vocabulary.sha256,
        "temperature": stored.temperature if stored else 1.0,
    }
    text = [f"# {config.what}\n"]
    text.append("".join(f"- {name}: {x}\n" for name, x in model.items()))
    for table in report.tables:
        text += [f"{table.title}\n", console.markdown_table(table.cells())]
    for name, plot in report.plots.items():
        files.atomic_write_bytes(root / f"{name}.png", plot.png())
        text.append(f"![{name}.png]({name}.png)\n")
    files.atomic_write_text(root / "report.md", "\n".join(text))
    values = {
        "what": config.what,
        "results": report.results,
        "model": model,
        "config": dataclasses.asdict(config),
        "versions": {
            "electra_tf": electra_tf.__version__,
            "tensorflow": tf.__version__,
        },
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
