r"""Prints and plots the results of a study.

    python tools/replication/study_report.py \
        --study=configs/studies/objectives.toml --output_dir=PICTURES

Without --data_dir these are the authors' results, beside the study. Tables show
the cost and the losses of each arm's training, the scores of its probes, and
their differences to the baseline at equal FLOPs. Intervals are 95 %, by
Student's t over seeds; those of differences are paired, as runs with the same
seed read the same data. They are not corrected for the number of comparisons,
and those over two or three seeds decide little: n stands in each cell. FLOPs
are those of `studies.count_flops` everywhere. Needs `[analysis]`.
"""

import argparse
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence

import studies
from studies import Record, Results, Study

HELD_OUT = ("masked_lm_loss", "disc_auc", "corrector_loss")
CAPTION = "Mean [95 % interval] (n seeds), uncorrected."
Runs = Mapping[str, Sequence[Record]]
"""Arm -> the results of its runs, by seed."""


def main() -> None:
    """Prints the tables, and draws the plots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", required=True)
    parser.add_argument("--data_dir", default="")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--baseline")
    parser.add_argument("--output_dir", type=pathlib.Path)
    args = parser.parse_args()
    study = studies.read_study(args.study)
    path = args.results or studies.results_path(args.study, args.data_dir)
    runs = runs_of(study, Results(pathlib.Path(path)))
    baseline = args.baseline or study.baseline
    print(f"{study.question}\nSource: {study.source}\nResults: {path}\n")
    print(costs(runs))
    print(f"\nScores. {CAPTION}\n\n{scores(study, runs)}")
    print(f"\nAbove {baseline}, at equal FLOPs. {CAPTION}\n")
    print(scores(study, runs, baseline))
    if args.output_dir:
        draw(study, runs, args.output_dir)


def runs_of(study: Study, results: Results) -> Runs:
    """Returns the results that count."""
    runs = {}
    for arm in study.arms:
        for rate in study.learning_rates:  # all runs of an arm have one
            found = [results.find(run) for run in study.runs(arm, rate)]
            if any(found):
                runs[arm] = [record for record in found if record]
    return runs


def costs(runs: Runs) -> str:
    """Tabulates the training cost and the losses of each arm."""
    head = ["arm", "seeds", "rate", "updates", "FLOPs", "seconds", "gate"]
    rows = []
    for arm, records in runs.items():
        first, gates = records[0], [x["gate"] for x in records]
        seconds = statistics.mean(x["training_seconds"] for x in records)
        held_out = [
            [x["held_out"][n] for x in records if n in x["held_out"]]
            for n in HELD_OUT
        ]
        rows.append(
            [
                *(arm, str(len(records)), f"{first['learning_rate']:g}"),
                f"{first['num_train_steps']:,}",
                f"{first['training_flops']:.3g}",
                f"{seconds:,.0f}",
                "-" if None in gates else f"{max(gates):.3f}",
                *map(cell, held_out),
            ]
        )
    return table([*head, *HELD_OUT], rows)


def scores(study: Study, runs: Runs, baseline: str = "") -> str:
    """Tabulates probes by arm, as they are or above those of a baseline."""
    rows = [
        [arm, *(cell(values(runs, arm, x, baseline)) for x in study.probes)]
        for arm in runs
    ]
    return table(["arm", *study.probes], rows)


def values(runs: Runs, arm: str, probe: str, baseline: str = "") -> list[float]:
    """Returns the scores of an arm's runs that have one."""
    others = {x["seed"]: at_end(x, probe) for x in runs.get(baseline, ())}
    pairs = [(at_end(x, probe), others.get(x["seed"])) for x in runs[arm]]
    if not baseline:
        return [score for score, _ in pairs if score is not None]
    return [x - y for x, y in pairs if None not in (x, y)]


def at_end(run: Record, probe: str) -> float | None:
    """Returns a probe's score after the whole training."""
    return run["probes"].get(probe, {}).get("1.0")


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and half of its 95 % interval; NaN for one value."""
    from scipy import stats

    if len(values) < 2:
        return values[0], math.nan
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values)
    return statistics.fmean(values), half / len(values) ** 0.5


def cell(values: Sequence[float]) -> str:
    """Writes "1.500 [1.250, 1.750] (3)"; "-" for no values."""
    if not values:
        return "-"
    mean, half = interval(values)
    digits = 1 if abs(mean) >= 10 else 3
    ends = f" [{mean - half:.{digits}f}, {mean + half:.{digits}f}]"
    ends = "" if math.isnan(half) else ends
    return f"{mean:.{digits}f}{ends} ({len(values)})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table with aligned columns."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| "
        + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True))
        + " |"
        for line in (head, rule, *rows)
    )


def draw(study: Study, runs: Runs, directory: pathlib.Path) -> None:
    """Plots each probe over FLOPs: a line for each run, a colour for an arm."""
    from matplotlib.figure import Figure

    directory.mkdir(parents=True, exist_ok=True)
    for name, probe in studies.read_probes(study.probes).items():
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for number, (arm, records) in enumerate(runs.items()):
            for record in records:
                curve = record["probes"].get(name, {})
                axes.plot(
                    [float(x) * record["training_flops"] for x in curve],
                    list(curve.values()),
                    "o-" if number < 8 else "s--",
                    color=f"C{number % 8}",
                    label=arm if record is records[0] else None,
                )
        axes.set(title=probe.what, xlabel="training FLOPs")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right", frameon=False, fontsize=9)
        figure.savefig(directory / f"{study.name}_{name}.png", dpi=150)


if __name__ == "__main__":
    main()
