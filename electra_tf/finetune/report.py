"""What the trials of a run say together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_LESS_IS_BETTER = ("loss", "mse")

Results = Sequence[Mapping[str, Any]]
"""Of trials, as `result.json` holds them."""
Summary = dict[str, dict[str, dict[str, float]]]
"""Split -> metric -> "median", "mean", "std" and "best"."""


def summarize(results: Results) -> Summary:
    """Computes statistics over trials.

    Args:
      results: of the trials; their "metrics" are summarized.

    Returns:
      Statistics of each metric; the standard deviation is that of a sample, 0
      of a single trial.
    """
    summary: Summary = {}
    for split, metrics in results[0]["metrics"].items():
        for name in metrics:
            values = np.array([r["metrics"][split][name] for r in results])
            best = values.min() if name in _LESS_IS_BETTER else values.max()
            summary.setdefault(split, {})[name] = {
                "median": float(np.median(values)),
                "mean": float(values.mean()),
                "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                "best": float(best),
            }
    return summary


def table(
    task_name: str,
    results: Results,
    ensemble: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """Writes a line for each trial and the statistics below.

    Args:
      task_name: of all trials.
      results: of the trials.
      ensemble: metrics of all trials together, split -> metric -> value; some
        may be missing. None if there is no ensemble.
    """
    columns = [
        (split, name)
        for split, metrics in results[0]["metrics"].items()
        for name in metrics
    ]
    rows = [[task_name, *(_title(*column) for column in columns), ""]]
    for result in results:
        values = [result["metrics"][s][n] for s, n in columns]
        label = f"trial {result['trial']}"
        rows.append([label, *map(_number, values), _note(result)])
    summary = summarize(results)
    for statistic in ("median", "mean", "std", "best"):
        values = [summary[s][n][statistic] for s, n in columns]
        rows.append([statistic, *map(_number, values), ""])
    if ensemble:
        values = [ensemble[s].get(n) for s, n in columns]
        cells = ["" if value is None else _number(value) for value in values]
        rows.append(["ensemble", *cells, ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(_line(row, widths) + "\n" for row in rows)


def _title(split: str, name: str) -> str:
    """Names a metric; those of a second dev split by what the split is."""
    kind = split.removeprefix("dev").strip("_")
    return f"{kind} {name}".strip()


def _number(value: float) -> str:
    return f"{value:.2f}"


def _note(result: Mapping[str, Any]) -> str:
    notes = []
    if result["restarts"]:
        notes.append(f"begun anew {result['restarts']}x")
    if result.get("collapsed"):
        notes.append("failed: answers all alike")
    return ", ".join(notes)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers, note = row
    cells = [first.ljust(widths[0])]
    cells += [
        text.rjust(width)
        for text, width in zip(numbers, widths[1:-1], strict=True)
    ]
    return "  ".join([*cells, note]).rstrip()
