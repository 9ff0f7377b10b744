r"""Measures the performance goals of the package, and reports which are met.

    python tools/benchmarks/environments.py --dir=DIR --names=electra_tf,torch
    python tools/benchmarks/goals.py --environments=DIR
    python tools/benchmarks/goals.py --rows=cold_start,help

Each row of `ROWS` is a goal. The benchmarks that the rows need run one after
another, each once, in processes of their own. A table is printed to standard
error, and one JSON line with the reports of the benchmarks to standard output.
A row that could not be measured, or that needs bfloat16 on a processor without
it, is "not run". Everything takes about an hour on two cores. The machine must
be otherwise idle (--busy_limit).

The real run is `configs/small.cfg` with 32 rows, on the records in --data_dir,
which are built if missing. It has two compute threads, as every peer.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import checks
import environments
import machine
from peers import thread_variables
from reports import spread

from electra_tf.util import config_flags, console, signals, tables
from electra_tf.util.config_fields import bounded
from electra_tf.util.errors import UserError

_HERE = pathlib.Path(__file__).resolve().parent
_SMALL = environments.ROOT / "configs" / "small.cfg"
_NUM_HELPS = 5
_NUM_THREADS = 2

Report = dict


@dataclasses.dataclass(frozen=True, kw_only=True)
class GoalsConfig(environments.PeersConfig):
    """Which goals to measure, and where."""

    rows: tuple[str, ...] = ()
    """Goals to measure, by their names in the table. Default: all."""

    data_dir: str = "data/small"
    """Directory of the real run's records."""

    turns: int = bounded("at least 1", 7)
    """Number of turns of each peer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require_known(self, "rows", [row.name for row in ROWS])


def _peer_step(*flags: str) -> Callable[[GoalsConfig], Report]:
    """Returns a function that measures with `peer_step.py`."""

    def measure(config: GoalsConfig) -> Report:
        return _run(
            config,
            "peer_step.py",
            *flags,
            f"--environments={config.environments}",
            f"--turns={config.turns}",
            f"--threads={_NUM_THREADS}",
        )

    return measure


def _pretrain_step(config: GoalsConfig) -> Report:
    return _run(
        config,
        "pretrain_step.py",
        f"--flagfile={_SMALL}",
        "--train_batch_size=32",
        f"--data_dir={config.data_dir}",
    )


def _measure_help(config: GoalsConfig) -> Report:
    """Times `run_pretraining --help`."""

    def seconds() -> float:
        start = time.perf_counter()
        _output(config, "-m", "electra_tf.run_pretraining", "--help")
        return time.perf_counter() - start

    quiet = machine.QuietMachine(config.busy_limit)
    found = spread([quiet.take(seconds) for _ in range(_NUM_HELPS)])
    return {"seconds": found, **quiet.report()}


def _run(config: GoalsConfig, tool: str, *flags: str) -> Report:
    """Runs a benchmark, and returns its report."""
    limit = f"--busy_limit={config.busy_limit}"
    return json.loads(_output(config, str(_HERE / tool), *flags, limit))


def _output(config: GoalsConfig, *words: str) -> str:
    """Runs the Python of our environment, and returns its standard output."""
    python = environments.find_python(config.environments, "electra_tf")
    done = subprocess.run(
        [python, *words],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        env=environments.variables() | thread_variables(_NUM_THREADS),
    )
    if done.returncode:
        raise UserError(f"exit code {done.returncode} of {' '.join(words)}")
    return done.stdout


MEASUREMENTS: dict[str, Callable[[GoalsConfig], Report]] = {
    "small_float32": _peer_step("--precisions=float32"),
    "small_bfloat16": _peer_step("--precisions=bfloat16"),
    **{
        f"base_{rows}x{length}_{precision}": _peer_step(
            "--size=base",
            f"--batch_size={rows}",
            f"--max_seq_length={length}",
            f"--precisions={precision}",
        )
        for rows, length in ((8, 128), (2, 512))
        for precision in ("float32", "bfloat16")
    },
    "small_128_rows": _peer_step(
        "--batch_size=128", "--precisions=float32", "--peers=electra_tf"
    ),
    "finetune_float32": _peer_step("--job=finetune", "--precisions=float32"),
    "finetune_bfloat16": _peer_step("--job=finetune", "--precisions=bfloat16"),
    "real_run": _pretrain_step,
    "help": _measure_help,
}
"""Name -> function that makes the report from which goals take figures."""

WITHOUT_TORCH = {"small_128_rows", "real_run", "help"}
"""Names of measurements that run only electra_tf."""


class Goal(NamedTuple):
    """A bound on a figure."""

    relation: str
    bound: float
    unit: str

    def is_met(self, figure: float) -> bool:
        """Returns whether a figure meets the goal."""
        is_floor = self.relation == ">="
        return figure >= self.bound if is_floor else figure <= self.bound

    def shown(self, value: float) -> str:
        """Formats a value in this unit for the table."""
        if self.unit == "%":
            return f"{100 * value:.1f} %"
        return f"{value:.2f} {self.unit}"

    def __str__(self) -> str:
        return f"{self.relation} {self.shown(self.bound)}"


class Row(NamedTuple):
    """A goal of the table."""

    name: str
    sources: tuple[str, ...]
    figure: Callable[..., float]
    goal: Goal

    @property
    def needs_bfloat16(self) -> bool:
        """Whether it is measured in bfloat16."""
        return any(name.endswith("bfloat16") for name in self.sources)


def _speedup_goal(source: str, times: float) -> Row:
    """Returns the goal of being so many times faster than the best PyTorch."""
    precision = source.rpartition("_")[2]

    def figure(report: Report) -> float:
        return report["torch_over_electra_tf"][precision]["wall"]

    goal = Goal(">=", times, "times")
    return Row(f"faster_{source}", (source,), figure, goal)


def _small_update_goal(name: str, key: str, precision: str, goal: Goal) -> Row:
    """Returns a goal for a figure of our update of Small."""

    def figure(report: Report) -> float:
        return report["update"][f"electra_tf-{precision}"][key]

    return Row(name, (f"small_{precision}",), figure, goal)


def _peak_memory(report: Report) -> float:
    return report["peak_memory_gb"]["electra_tf-float32"]


def _real_over_compared(real: Report, compared: Report) -> float:
    """Returns the time of a real update divided by the comparison's."""
    times = compared["seconds_per_step"]["electra_tf-float32"]["wall"]
    return real["seconds_per_update"]["median"] / times["median"]


ROWS = (
    _speedup_goal("small_float32", 1.5),
    _speedup_goal("small_bfloat16", 1.7),
    _speedup_goal("base_8x128_float32", 1.2),
    _speedup_goal("base_8x128_bfloat16", 1.2),
    _speedup_goal("base_2x512_float32", 1.2),
    _speedup_goal("base_2x512_bfloat16", 1.2),
    _speedup_goal("finetune_float32", 1.3),
    _speedup_goal("finetune_bfloat16", 1.3),
    _small_update_goal(
        "ceiling_float32",
        "share_of_ceiling",
        "float32",
        Goal(">=", 0.65, "%"),
    ),
    _small_update_goal(
        "ceiling_bfloat16",
        "share_of_ceiling",
        "bfloat16",
        Goal(">=", 0.55, "%"),
    ),
    _small_update_goal(
        "weights_update",
        "weights_update_share",
        "float32",
        Goal("<=", 0.05, "%"),
    ),
    Row(
        "real_run",
        ("real_run", "small_float32"),
        _real_over_compared,
        Goal("<=", 1.05, "times"),
    ),
    Row("memory_32", ("small_float32",), _peak_memory, Goal("<=", 1.8, "GB")),
    Row(
        "memory_128", ("small_128_rows",), _peak_memory, Goal("<=", 5.05, "GB")
    ),
    Row(
        "cold_start",
        ("real_run",),
        lambda report: report["seconds_to_first_update"],
        Goal("<=", 25.0, "s"),
    ),
    Row(
        "help",
        ("help",),
        lambda report: report["seconds"]["median"],
        Goal("<=", 1.0, "s"),
    ),
)
"""All goals. Small has 32 rows of 128 tokens unless the name says otherwise;
`memory` is the peak of a process that trains Small in float32."""


class Verdict(NamedTuple):
    """The outcome of a goal."""

    row: str
    measured: str
    goal: str
    verdict: str


def judge(
    row: Row, reports: Mapping[str, Report | str], *, has_bfloat16: bool
) -> Verdict:
    """Compares the figure of a row with its goal."""
    missing = [x for x in map(reports.get, row.sources) if isinstance(x, str)]
    if row.needs_bfloat16 and not has_bfloat16:
        missing = ["no bfloat16"]
    if missing:
        text = f"not run: {missing[0]}"
        return Verdict(row.name, "", str(row.goal), text)
    figure = row.figure(*(reports[name] for name in row.sources))
    text = "pass" if row.goal.is_met(figure) else "falls short"
    return Verdict(row.name, row.goal.shown(figure), str(row.goal), text)


def table(verdicts: Iterable[Verdict]) -> str:
    """Returns a table with a line for each verdict."""
    lines = [Verdict("goal", "measured", "wanted", "verdict"), *verdicts]
    notes = [line.verdict for line in lines]
    return tables.aligned([line[:-1] for line in lines], notes)


@signals.interruptible(is_resumable=False)
def main(config: GoalsConfig) -> None:
    """Measures the goals, and prints table and report."""
    machine_facts, has_bfloat16 = machine.describe(), machine.has_bfloat16()
    rows = [row for row in ROWS if not config.rows or row.name in config.rows]
    able = [row for row in rows if has_bfloat16 or not row.needs_bfloat16]
    for peer in peers_of(able):
        environments.find_python(config.environments, peer)
    reports = _measure(config, able)
    verdicts = [judge(x, reports, has_bfloat16=has_bfloat16) for x in rows]
    sys.stderr.write(f"\n{table(verdicts)}")
    report = {
        "benchmark": "goals",
        **machine_facts,
        "goals": [verdict._asdict() for verdict in verdicts],
        "reports": reports,
    }
    print(json.dumps(report))


def peers_of(rows: Iterable[Row]) -> list[str]:
    """Returns the environments that the measurements of rows run in."""
    needed = {name for row in rows for name in row.sources}
    return ["electra_tf", *["torch"] * bool(needed - WITHOUT_TORCH)]


def _measure(
    config: GoalsConfig, rows: Sequence[Row]
) -> dict[str, Report | str]:
    """Returns the reports that the rows need, or why there is none."""
    reports = {}
    for name in dict.fromkeys(name for row in rows for name in row.sources):
        sys.stderr.write(f"goals: {name}\n")
        try:
            reports[name] = MEASUREMENTS[name](config)
        except UserError as error:
            console.warn(str(error))
            reports[name] = str(error).partition(". ")[0]
    return reports


if __name__ == "__main__":
    config_flags.run(main, GoalsConfig)
