"""What the trials of a run say together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ALL_TASKS = "all"
"""Stands among the splits of several tasks, with `MEAN`."""
MEAN = "mean"
"""The mean of the tasks' main metrics."""

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
      Statistics of each metric, over the trials that have it; the standard
      deviation is that of a sample, 0 of a single trial.
    """
    summary: Summary = {}
    for split, name in _columns(results):
        found = [_value(result["metrics"], split, name) for result in results]
        values = np.array([value for value in found if value is not None])
        best = values.min() if name in _LESS_IS_BETTER else values.max()
        summary.setdefault(split, {})[name] = {
            "median": float(np.median(values)),
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
            "best": float(best),
        }
    return summary


def _columns(results: Results) -> list[tuple[str, str]]:
    """Returns split and name of each metric that a trial has."""
    columns = {
        (split, name): None
        for result in results
        for split, metrics in result["metrics"].items()
        for name in metrics
    }
    return list(columns)


def _value(
    metrics: Mapping[str, Mapping[str, float]], split: str, name: str
) -> float | None:
    return metrics.get(split, {}).get(name)


def tables(
    task_names: Sequence[str],
    results: Results,
    ensemble: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """Writes a table for each task, and of several one of their mean.

    Args:
      task_names: of all trials.
      results: of the trials.
      ensemble: as of `table`.
    """
    if len(task_names) == 1:
        return table(task_names[0], results, ensemble)
    parts = []
    for name in (*task_names, ALL_TASKS):
        mine = [{**r, "metrics": _of_task(name, r["metrics"])} for r in results]
        parts.append(table(name, mine, _of_task(name, ensemble or {})))
    return "\n".join(parts)


def _of_task(
    name: str, metrics: Mapping[str, Mapping[str, float]]
) -> dict[str, Mapping[str, float]]:
    """Returns the metrics of one of several tasks, by its own splits."""
    mine = (f"{name}_dev", f"{name}_test")
    return {
        split.removeprefix(f"{name}_"): values
        for split, values in metrics.items()
        if split in (name, *mine)
        or split.startswith(tuple(f"{kind}_" for kind in mine))
    }


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
    columns = _columns(results)
    rows = [[task_name, *(_title(*column) for column in columns), ""]]
    for result in results:
        cells = [_cell(result["metrics"], *column) for column in columns]
        label = f"trial {result['trial']}"
        rows.append([label, *cells, _note(result)])
    summary = summarize(results)
    for statistic in ("median", "mean", "std", "best"):
        values = [summary[s][n][statistic] for s, n in columns]
        rows.append([statistic, *map(_number, values), ""])
    if ensemble:
        cells = [_cell(ensemble, *column) for column in columns]
        rows.append(["ensemble", *cells, ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(_line(row, widths) + "\n" for row in rows)


def _title(split: str, name: str) -> str:
    """Names a metric; those of other splits by what the split is."""
    kind = split.removeprefix("dev").strip("_")
    kind = "" if kind == ALL_TASKS else kind
    return f"{kind} {name}".strip()


def _number(value: float) -> str:
    return f"{value:.2f}"


def _cell(
    metrics: Mapping[str, Mapping[str, float]], split: str, name: str
) -> str:
    value = _value(metrics, split, name)
    return "" if value is None else _number(value)


def _note(result: Mapping[str, Any]) -> str:
    notes = []
    if result["restarts"]:
        where = result["directory"]
        notes.append(f"begun anew {result['restarts']}x, now {where}")
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
