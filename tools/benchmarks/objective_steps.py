"""Measures the update of every objective relative to ELECTRA's.

    python tools/benchmarks/objective_steps.py --flagfile=configs/demo.cfg

Each file in configs/ablations overrides the given flags. All updates are timed
in turn, in several rounds, and compared with `electra` in the same round, so
that the ratios hold even if the machine's speed drifts. It prints one JSON line
for each file; those that do not fit the flags are reported as skipped. A frozen
generator has random weights.

Updates are timed at three quarters of the run: in the second stage of
`two_stage`, and after the rise of schedules. FLOPs are counted by the paper's
rules.
"""

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import machine
from reports import spread

from electra_tf import flops_computation
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.flops_computation import FlopsConfig
from electra_tf.util import config_flags, memory
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from steps import Steps

_CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
_REFERENCE = "ablations/electra"
_NUM_ROUNDS = 7
_SECONDS_PER_BLOCK = 1.0


class Row(NamedTuple):
    """One objective in training."""

    config: PretrainingConfig
    steps: "Steps"
    gflop_per_sequence: float


def main(_: PretrainingConfig) -> None:
    """Times the updates, and prints the figures."""
    memory.keep()  # before TensorFlow is imported, as run_pretraining does
    rows, flags = {}, sys.argv[1:]
    for path in sorted(_CONFIGS.glob("ablations/*.cfg")):
        name = f"{path.parent.name}/{path.stem}"
        try:
            rows[name] = _row([*flags, f"--flagfile={path}"])
        except UserError as error:
            print(json.dumps({"config": name, "skipped": str(error)}))
    for row in rows.values():
        row.steps.seconds(2)  # traces and compiles
    size = max(1, round(_SECONDS_PER_BLOCK / rows[_REFERENCE].steps.seconds(2)))
    rounds = [
        {name: row.steps.seconds(size) for name, row in rows.items()}
        for _ in range(_NUM_ROUNDS)
    ]
    for name, row in rows.items():
        print(json.dumps(_report(name, row, rows[_REFERENCE], rounds)))


def _row(flags: Sequence[str]) -> Row:
    from steps import Steps

    config = config_flags.parse(PretrainingConfig, flags)
    steps = Steps(config)
    late_step = config.training.num_train_steps * 3 // 4
    steps.model.optimizer.iterations.assign(late_step)
    flops_config = config_flags.parse(FlopsConfig, flags)
    flops = flops_computation.config_flops(flops_config)["update"]
    return Row(config, steps, flops / config.training.train_batch_size / 1e9)


def _report(
    name: str, row: Row, reference: Row, rounds: list[Mapping[str, float]]
) -> dict:
    return {
        "benchmark": "objective_steps",
        **machine.versions("tensorflow", "keras"),
        **machine.describe(),
        "config": name,
        "objective": row.config.objective.objective,
        "batch_size": row.config.training.train_batch_size,
        "seconds_per_step": spread(found[name] for found in rounds),
        "ratio_to_electra": spread(
            found[name] / found[_REFERENCE] for found in rounds
        ),
        "gflop_per_sequence": row.gflop_per_sequence,
        "flops_ratio_to_electra": row.gflop_per_sequence
        / reference.gflop_per_sequence,
    }


if __name__ == "__main__":
    config_flags.run(main, PretrainingConfig)
