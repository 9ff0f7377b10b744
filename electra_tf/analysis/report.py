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

FILE_NAME = "report.json"
GREY = "#b9c2cc"

_MIN_WITHOUT_DECIMALS = 1000
_Z = 1.959964  # of a normal distribution, two-sided 95 %


class Interval(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(np.nan, np.nan, np.nan)
"""For a figure without data."""


def bootstrap(
    statistic: Callable[[np.ndarray], float | Sequence[float]],
    num_items: int,
    config: AnalysisConfig,
) -> list[Interval]:
    """Computes statistics, and their intervals from the same resamples.

    Shapes: the statistic takes indices [num_items] and returns [K] or a number.
    """
    random = np.random.default_rng(config.seed)
    draws = np.array(
        [
            np.atleast_1d(statistic(random.integers(num_items, size=num_items)))
            for _ in range(config.num_resamples)
        ]
    )  # [resamples, K]
    found = []
    values = np.atleast_1d(statistic(np.arange(num_items)))
    for value, column in zip(values, draws.T, strict=True):
        ends = (np.nan, np.nan)
        if not np.isnan(column).all():
            ends = np.nanpercentile(column, [2.5, 97.5])
        found.append(Interval(float(value), *map(float, ends)))
    return found


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


def mean(shares: Sequence[Interval]) -> Interval:
    """Computes the unweighted mean of independent proportions.

    Source: Zou and Donner, 2008 (variances recovered from the intervals).
    """
    count = len(shares)
    value = sum(share.value for share in shares) / count
    below = math.hypot(*(share.value - share.low for share in shares)) / count
    above = math.hypot(*(share.high - share.value for share in shares)) / count
    return Interval(value, value - below, value + above)


def shown(interval: Interval, digits: int = 3) -> str:
    """Writes "1.50 [1.25, 1.75]"; "none" for NaN."""
    if np.isnan(interval.value):
        return "none"
    value, low, high = (f"{x:.{digits}f}" for x in interval)
    return f"{value} [{low}, {high}]"


class Table(NamedTuple):
    """A table of a report."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | float]]

    def cells(self) -> list[list[str]]:
        """Returns the header and the rows as text."""
        rows = [[_format_cell(cell) for cell in row] for row in self.rows]
        return [[*self.header], *rows]


@dataclasses.dataclass(frozen=True)
class Report:
    """The results of an analysis."""

    what: str
    headline: Mapping[str, float]
    results: Mapping[str, Any]
    tables: Sequence[Table]
    plots: Mapping[str, Callable[["Axes"], None]] = dataclasses.field(
        default_factory=dict
    )


def analyze(config: AnalysisConfig) -> None:
    """Analyses a model: prints the tables and, if asked to, writes them."""
    directory = config.output_dir
    if directory:
        epath.Path(directory).mkdir(parents=True, exist_ok=True)
    module = importlib.import_module(f"electra_tf.analysis.{config.what}")
    report = module.run(config)
    for table in report.tables:
        console.say(f"{textwrap.fill(table.title, 79)}\n\n{_aligned(table)}")
    if directory:
        write(report, directory, _metadata(config))
        console.say(f"Wrote {directory}/{FILE_NAME}, report.md and plots\n")


def write(report: Report, directory: str, content: Mapping[str, Any]) -> None:
    """Writes the files of a report."""
    epath.Path(directory).mkdir(parents=True, exist_ok=True)
    root = epath.Path(directory)
    text = [f"# {report.what}\n"]
    text.append("".join(f"- {k}: {v}\n" for k, v in content["model"].items()))
    for table in report.tables:
        header, *rows = table.cells()
        rule = ["---"] + ["---:"] * (len(header) - 1)
        lines = (f"| {' | '.join(x)} |\n" for x in (header, rule, *rows))
        text += [f"{table.title}\n", "".join(lines)]
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
    files.write_json(root / FILE_NAME, plain(values))


def plain(value: Any) -> Any:  # noqa: ANN401 (any value)
    """Converts to JSON: tuples with names to objects, NaN to null."""
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
    """Returns what a report says beside the figures."""
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
    title: str = "",
    line: float = math.nan,
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
    if not math.isnan(line):
        axes.axvline(line, color=GREY, zorder=0)
    if len(series) > 1:
        axes.legend(frameon=False)


def _png(draw: Callable[["Axes"], None]) -> bytes:
    """Draws a plot without a window."""
    from matplotlib.figure import Figure

    figure = Figure((7.0, 4.4), dpi=150, layout="constrained")
    draw(figure.subplots())
    content = io.BytesIO()
    figure.savefig(content, format="png", bbox_inches="tight")
    return content.getvalue()


def _aligned(table: Table) -> str:
    """Aligns the first column left, the others right."""
    cells = table.cells()
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        rest = (x.rjust(n) for x, n in zip(others, widths[1:], strict=True))
        lines.append("  ".join([first.ljust(widths[0]), *rest]).rstrip())
    return "\n".join(lines) + "\n"


def _format_cell(cell: str | float) -> str:
    """Writes a number with three digits, an integer with all its digits."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int | np.integer) or abs(cell) >= _MIN_WITHOUT_DECIMALS:
        return f"{cell:,.0f}"
    return f"{cell:#.3g}".rstrip(".")
