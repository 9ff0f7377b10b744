"""Statistics of the trials of a run, and tables of them."""

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
Metrics = Mapping[str, Mapping[str, float]]
"""Split -> metric -> value."""
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
    ensemble: Metrics | None = None,
    *,
    majority: Metrics | None = None,
) -> str:
    """Writes a table for each task, and of several one of their mean.

    Args:
      task_names: of all trials.
      results: of the trials.
      ensemble: as of `table`.
      majority: as of `table`.
    """
    if len(task_names) == 1:
        return table(task_names[0], results, ensemble, majority=majority)
    parts = []
    for name in (*task_names, ALL_TASKS):
        mine = [{**r, "metrics": _of_task(name, r["metrics"])} for r in results]
        others = [_of_task(name, x or {}) for x in (ensemble, majority)]
        parts.append(table(name, mine, others[0], majority=others[1]))
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
    ensemble: Metrics | None = None,
    *,
    majority: Metrics | None = None,
) -> str:
    """Writes a line for each trial and the statistics below.

    A single trial has a line for each metric instead.

    Args:
      task_name: of all trials.
      results: of the trials.
      ensemble: metrics of all trials together, split -> metric -> value; some
        may be missing. None if there is no ensemble.
      majority: likewise, of what needs no model.
    """
    if len(results) == 1 and not ensemble:
        return _short_table(task_name, results[0], majority or {})
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
    for who, metrics in (("majority", majority), ("ensemble", ensemble)):
        if metrics:
            cells = [_cell(metrics, *column) for column in columns]
            rows.append([who, *cells, ""])
    return _aligned(rows)


def _short_table(
    task_name: str, result: Mapping[str, Any], majority: Metrics
) -> str:
    """Writes a line for each metric of a trial, and a column for each split.

    Args:
      task_name: of the trial.
      result: of the trial.
      majority: as of `table`; it stands beside the trial's metrics.
    """
    metrics = result["metrics"]
    columns = []
    for split in metrics:
        columns.append((split, _title(split, "") or "dev", metrics))
        if split in majority:
            columns.append((split, "majority", majority))
    title = f"{task_name}, trial {result['trial']}"
    rows = [[title, *(head for _, head, _ in columns), ""]]
    for name in dict.fromkeys(name for x in metrics.values() for name in x):
        cells = [_cell(values, split, name) for split, _, values in columns]
        rows.append([name, *cells, ""])
    note = _note(result)
    return _aligned(rows) + f"{note}\n" * bool(note)


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
        notes.append(f"restarted {result['restarts']}x, now {where}")
    if result.get("collapsed"):
        notes.append("failed: answers all alike")
    return ", ".join(notes)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(_line(row, widths) + "\n" for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers, note = row
    cells = [first.ljust(widths[0])]
    cells += [
        text.rjust(width)
        for text, width in zip(numbers, widths[1:-1], strict=True)
    ]
    return "  ".join([*cells, note]).rstrip()
