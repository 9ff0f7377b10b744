r"""Prints and plots the results of a study.

    python tools/replication/study_report.py \
        --study=configs/studies/objectives.toml --data_dir=DIR \
        --output_dir=PICTURES

Without --data_dir these are the authors' results, beside the study.

From the lines that `study.py` wrote it computes the cost and the losses of each
arm's training, the scores of its probes, and their differences to the baseline.
Intervals are 95 %, by Student's t over seeds; those of differences are paired,
as runs with the same seed read the same data. For equal seconds, an arm's score
is interpolated on its curve at the time when the baseline's training ends. The
learning rate has not decayed at that point, so that a training of that length
would score higher. Where some runs of an arm have no score, as a run over the
gate, the cell says of how many it is the mean. Needs `[analysis]`, and
`[plots]` for --output_dir.
"""

import dataclasses
import functools
import itertools
import math
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import studies
import tables
from studies import Study
from study_results import Record, Results

from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.util import console, plotting
from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, required, run_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEVEL = 0.95
_HELD_OUT = ("masked_lm_loss", "disc_auc", "corrector_loss")
_NONE = "-"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyReportConfig(Checked):
    """Which study to report, and where to write plots."""

    study: str = required()
    """TOML file of the study. Required."""

    data_dir: str = ""
    """Directory that study.py trained in; its results are there. Without it the
    results are the authors', beside the study."""

    results: str = ""
    """File of results, JSON lines, if it is another one."""

    baseline: str = ""
    """Arm to compare the others with. Default: the study's."""

    output_dir: str = ""
    """Directory of the plots. Default: no plots."""


def main(config: StudyReportConfig) -> None:
    """Prints the tables, and draws the plots."""
    study = studies.read_study(config.study)
    if config.baseline:
        study = dataclasses.replace(study, baseline=config.baseline)
    path = config.results or studies.results_path(config.study, config.data_dir)
    found = records(study, Results(pathlib.Path(path)))
    if not found:
        raise UserError(
            f"{path} must hold results of {study.name}. Received: none that "
            "count. Run tools/replication/study.py."
        )
    _check_text(study, found, path)
    console.say(f"{study.question}\nSource: {study.source}")
    console.say(f"Results: {path}\n\n{costs(found)}")
    for title, score in SCORES.items():
        title = title.format(baseline=study.baseline)
        console.say(f"\n{title}:\n\n{probe_table(study, found, score)}")
    if config.output_dir:
        _draw(study, found, pathlib.Path(config.output_dir))


def records(study: Study, results: Results) -> dict[str, list[Record]]:
    """Returns the results that count: arm -> its runs, in order of seeds."""
    found = {}
    for arm in study.arms:
        if rate := results.learning_rate(study, arm):
            runs = [results.find(run) for run in study.runs(arm, rate)]
            found[arm] = [run for run in runs if run]
    return {arm: runs for arm, runs in found.items() if runs}


def _check_text(
    study: Study,
    found: Mapping[str, Sequence[Record]],
    path: str | pathlib.Path,
) -> None:
    """Checks that all runs whose records are shared have one vocabulary."""
    vocabularies = {
        run["vocabulary"]: run["run"]
        for arm, runs in found.items()
        if arm not in study.own_records
        for run in runs
    }
    if len(vocabularies) > 1:
        named = (f"{digest} of {run}" for digest, run in vocabularies.items())
        raise UserError(
            f"{path} must hold results for one text, so with one vocabulary. "
            f"Received: {', '.join(named)}. Move the lines of each to a file "
            "of its own, and set --results."
        )


def costs(found: Mapping[str, Sequence[Record]]) -> str:
    """Tabulates the training cost and the losses of each arm."""
    head = ["arm", "seeds", "rate", "updates", "FLOPs", "seconds", "gate"]
    rows = []
    for arm, runs in found.items():
        first = runs[0]
        gates = [run["gate"] for run in runs]
        rows.append(
            [
                arm,
                str(len(runs)),
                f"{first['learning_rate']:g}",
                f"{first['num_train_steps']:,}",
                f"{first['training_flops']:.3g}",
                f"{statistics.mean(r['training_seconds'] for r in runs):,.0f}",
                _NONE if None in gates else f"{max(gates):.3f}",
                *(
                    _shown(interval([run["held_out"][name] for run in runs]))
                    if name in first["held_out"]
                    else _NONE
                    for name in _HELD_OUT
                ),
            ]
        )
    return tables.table([*head, *_HELD_OUT], rows)


def interval(values: Sequence[float]) -> Interval:
    """Computes a mean and its interval, by Student's t; NaN for one value."""
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Interval(mean, math.nan, math.nan)
    from scipy import stats

    half = stats.t.ppf((1 + _LEVEL) / 2, n - 1) * statistics.stdev(values)
    return Interval(mean, mean - half / n**0.5, mean + half / n**0.5)


def _shown(interval: Interval) -> str:
    """Writes "1.500 [1.250, 1.750]", or the mean alone if it has no
    interval."""
    decimals = 1 if abs(interval.value) >= 10 else 3
    value, low, high = (
        f"{x:.{decimals}f}"
        for x in (interval.value, interval.low, interval.high)
    )
    return value if math.isnan(interval.low) else f"{value} [{low}, {high}]"


Score = Callable[[Record, Record | None, str], float | None]
"""A run, the baseline's run of that seed, a probe -> the score, if any."""


def at_end(run: Record, baseline: Record | None, probe: str) -> float | None:
    """Returns a probe's score after the whole training."""
    del baseline
    return run["probes"].get(probe, {}).get("1.0")


def over_baseline(
    run: Record, baseline: Record | None, probe: str
) -> float | None:
    """Returns a score minus the baseline's, at equal FLOPs."""
    return _difference(at_end(run, None, probe), baseline, probe)


def over_baseline_in_time(
    run: Record, baseline: Record | None, probe: str
) -> float | None:
    """Returns a score minus the baseline's, at equal seconds."""
    curve = run["probes"].get(probe, {})
    if not baseline or len(curve) < 2 or run["cpu"] != baseline["cpu"]:
        return None
    seconds = {float(x) * run["training_seconds"]: y for x, y in curve.items()}
    score = _interpolate(seconds, baseline["training_seconds"])
    return _difference(score, baseline, probe)


SCORES: dict[str, Score] = {
    "Scores": at_end,
    "Above {baseline}, at equal FLOPs": over_baseline,
    "Above {baseline}, at equal seconds": over_baseline_in_time,
}
"""Title of a table -> the score that it shows."""


def _difference(
    score: float | None, baseline: Record | None, probe: str
) -> float | None:
    other = baseline and at_end(baseline, None, probe)
    return None if None in (score, other) else score - other


def _interpolate(curve: Mapping[float, float], x: float) -> float | None:
    """Interpolates y at x, linearly in log x."""
    if x < min(curve):
        return None
    xs, ys = np.transpose(sorted(curve.items()))
    return float(np.interp(np.log(x), np.log(xs), ys))


def probe_table(
    study: Study, found: Mapping[str, Sequence[Record]], score: Score
) -> str:
    """Tabulates a score of each probe, with a row for each arm."""
    rows = []
    for arm, runs in found.items():
        row = [arm]
        for probe in study.probes:
            figures = _figures(study, found, arm, probe, score)
            cell = _shown(interval(figures)) if figures else _NONE
            row.append(cell + _partial_count(figures, runs))
        rows.append(row)
    return tables.table(["arm", *study.probes], rows)


def _partial_count(figures: Sequence[float], runs: Sequence[Record]) -> str:
    """Returns " (2 of 3)" if only some runs have a score."""
    is_partial = 0 < len(figures) < len(runs)
    return f" ({len(figures)} of {len(runs)})" if is_partial else ""


def _figures(
    study: Study,
    found: Mapping[str, Sequence[Record]],
    arm: str,
    probe: str,
    score: Score,
) -> list[float]:
    """Returns the scores of an arm's runs that have one."""
    baselines = {run["seed"]: run for run in found.get(study.baseline, [])}
    figures = [
        score(run, baselines.get(run["seed"]), probe) for run in found[arm]
    ]
    return [figure for figure in figures if figure is not None]


def _draw(
    study: Study, found: Mapping[str, Sequence[Record]], output: pathlib.Path
) -> None:
    """Plots each probe: scores with intervals, and curves if it has any."""
    for name, probe in studies.read_probes(study.probes).items():
        scores = {}
        for arm, runs in found.items():
            if figures := _figures(study, found, arm, name, at_end):
                label = arm + _partial_count(figures, runs)
                scores[label] = interval(figures)
        if not scores:
            continue
        pictures = {name: functools.partial(_draw_scores, scores)}
        if not probe.at_end:
            for cost in ("FLOPs", "seconds"):
                draw = functools.partial(_draw_curves, found, name, cost)
                pictures[f"{name}_{cost.lower()}"] = draw
        for title, draw in pictures.items():
            figure = plotting.make_figure(6, 3.6)
            draw(probe.what, figure.add_subplot())
            plotting.save(figure, output / f"{study.name}_{title}.png")


def _draw_scores(
    scores: Mapping[str, Interval], title: str, axes: "Axes"
) -> None:
    """Draws the scores of arms, with their intervals."""
    plotting.draw_intervals(axes, list(scores), {"": list(scores.values())})
    plotting.set_style(axes, title, "95 % interval over seeds")


def _draw_curves(
    found: Mapping[str, Sequence[Record]],
    probe: str,
    cost: str,
    title: str,
    axes: "Axes",
) -> None:
    """Draws a probe over the training cost, with a line for each run."""
    field = f"training_{cost.lower()}"
    pairs = itertools.product(("o-", "s--"), plotting.COLOURS)
    styles = itertools.cycle(pairs)
    for (line, colour), (arm, runs) in zip(styles, found.items(), strict=False):
        for run in runs:
            if curve := run["probes"].get(probe):
                axes.plot(
                    [float(share) * run[field] for share in curve],
                    list(curve.values()),
                    line,
                    color=colour,
                    label=arm if run is runs[0] else None,
                )
    plotting.set_style(axes, title, f"training {cost}")
    axes.figure.legend(loc="outside right", frameon=False, fontsize=9)


if __name__ == "__main__":
    run_command(main, StudyReportConfig)
