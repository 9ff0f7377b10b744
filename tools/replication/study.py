"""Trains and probes what a study lacks, one run after another.

    python tools/replication/study.py --study=configs/studies/objectives.toml \
        --data_dir=DIR --corpus='text/*.txt' --probe_data=DATA

Each run that is finished becomes a line of JSON in --results; what has one is
not run again, so that the command may be stopped at any time and given again. A
line of another version of the package or of other settings does not count: it
is named, stays where it is, and its run is made again. First each arm tries the
study's learning rates, for a short time; then all arms are trained, seed by
seed. A run whose discriminator has not learnt is not probed.

Source of the gate: none; a discriminator that knows the share of replaced
tokens alone has the entropy of that share as its loss.
"""

import dataclasses
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import studies
from studies import ROOT, Probe, Run, Study

from electra_tf.util import config_flags, console, files
from electra_tf.util.errors import UserError

GATE = 0.95
"""Greatest loss of a discriminator that is probed, as a share of the entropy of
the share of replaced tokens."""

_PACKAGES = ("electra_tf", "tensorflow", "keras", "numpy")

Record = dict[str, Any]
"""A line of the results."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """Which study, on which text."""

    study: str = ""
    """TOML file of the study, as configs/studies/objectives.toml. Required."""

    data_dir: str = ""
    """Root of vocabulary, records and models. Required."""

    corpus: str = "demo"
    """Text, as run_pretraining takes it."""

    probe_data: str = ""
    """Directory of the data of the probes; without it none is made."""

    results: str = ""
    """JSON lines. Default: the study's file, its ending .jsonl."""

    def __post_init__(self) -> None:
        for name in ("study", "data_dir"):
            if not getattr(self, name):
                raise UserError(
                    f"`{name}` must be given. Received: nothing. Set --{name}."
                )

    @property
    def results_path(self) -> pathlib.Path:
        """Where the results are."""
        return pathlib.Path(
            self.results or pathlib.Path(self.study).with_suffix(".jsonl")
        )


def main(config: StudyConfig) -> None:
    """Makes the runs that are missing."""
    study = studies.read_study(config.study)
    probes = studies.read_probes(study.probes) if config.probe_data else {}
    results = Results(config.results_path)
    for arm in study.arms:
        for run in study.trials(arm):
            _finish(run, config, {}, results)
    rates = {arm: results.learning_rate(study, arm) for arm in study.arms}
    for seed in range(len(study.seeds)):
        for arm, rate in rates.items():
            _finish(study.runs(arm, rate)[seed], config, probes, results)
    console.say(f"All runs of {study.name} are in {config.results_path}.")


class Results:
    """The lines of a study's results.

    Args:
      path: of the file; it need not be there.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.records: list[Record] = _read_lines(path) if path.exists() else []

    def find(self, run: Run) -> Record | None:
        """Returns the line of a run; None if there is none that counts."""
        fingerprint, found = run.fingerprint, None
        for record in self.records:
            if record["run"] != run.name:
                continue
            if record["fingerprint"] == fingerprint:
                found = record
            elif not found:
                console.warn(
                    f"{self._path}: a line of {run.name} is of version "
                    f"{record['versions']['electra_tf']} or of other settings "
                    "and does not count."
                )
        return found

    def add(self, record: Record) -> None:
        """Appends a line."""
        self.records.append(record)
        files.append_text(self._path, json.dumps(record) + "\n")

    def learning_rate(self, study: Study, arm: str) -> float | None:
        """Returns the rate whose trial has the lowest held-out loss.

        Returns:
          None if a trial is missing.
        """
        trials = study.trials(arm)
        if not trials:
            return study.learning_rates[0]
        found = [self.find(run) for run in trials]
        if not all(found):
            return None
        best = min(found, key=lambda record: record["held_out"]["loss"])
        return best["learning_rate"]


def _finish(
    run: Run, config: StudyConfig, probes: Mapping[str, Probe], results: Results
) -> None:
    """Trains and probes a run, if its line is not there."""
    if results.find(run):
        return
    console.say(f"== {run.name}")
    place = {
        "data_dir": config.data_dir,
        "corpus": config.corpus,
        "model_name": run.model_name,
    }
    flags = [f"--{name}={value}" for name, value in place.items()]
    _call("electra_tf.run_pretraining", *run.flags(), *flags)
    results.add(_record(run, config, probes))


def _record(
    run: Run, config: StudyConfig, probes: Mapping[str, Probe]
) -> Record:
    """Probes a run that is trained, and returns its line."""
    model_dir = pathlib.Path(config.data_dir) / "models" / run.model_name
    held_out = files.read_object(model_dir / "results/pretraining_eval.json")
    gate = share_of_entropy(held_out)
    is_probed = gate is None or gate <= GATE
    if not is_probed:
        console.warn(f"{run.name}: not probed, its gate is {gate:.3f}.")
    return {
        "run": run.name,
        "arm": run.arm,
        "seed": run.seed,
        "learning_rate": run.learning_rate,
        "is_trial": run.is_trial,
        "fingerprint": run.fingerprint,
        "num_train_steps": run.num_train_steps,
        "training_flops": held_out["training_flops"],
        "training_seconds": training_seconds(
            _read_lines(model_dir / "metrics.jsonl"),
            run.config.training.train_batch_size,
        ),
        "gate": gate,
        "held_out": held_out,
        "probes": {
            name: _probe(probe, run, model_dir, config)
            for name, probe in probes.items()
            if is_probed and not run.is_trial and probe.is_of(run.arm, 1.0)
        },
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "cpu": _cpu(),
    }


def share_of_entropy(held_out: Mapping[str, float]) -> float | None:
    """Compares a discriminator with one that knows the share of fakes alone.

    Args:
      held_out: metrics of the evaluation.

    Returns:
      Its loss over the entropy of the share of replaced tokens, 1 where it has
      learnt nothing; None where there is no discriminator.
    """
    if "disc_loss" not in held_out:
        return None
    p = held_out["replaced_share"]
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    return held_out["disc_loss"] / entropy


def training_seconds(
    log: Sequence[Mapping[str, float]], batch_size: int
) -> float:
    """Returns the seconds of all updates, at the median speed of a run's log.

    So neither tracing nor what other processes took for a while is counted.
    """
    speed = statistics.median(line["sequences_per_second"] for line in log)
    return log[-1]["step"] * batch_size / speed


def _read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads lines of JSON.

    Raises:
      UserError: naming the first that is none.
    """
    lines = path.read_text("utf-8").splitlines()
    return [
        _parse(line, f"{path}, line {number}")
        for number, line in enumerate(lines, 1)
    ]


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{place} must be JSON. Received: {error}. Remove the line; its "
            "run is made again."
        ) from error


def _probe(
    probe: Probe, run: Run, model_dir: pathlib.Path, config: StudyConfig
) -> dict[str, float]:
    """Returns share of the training -> score."""
    last = run.num_train_steps
    return {
        str(share): _score(
            probe, model_dir / f"model.ckpt-{round(share * last)}", run, config
        )
        for share in studies.CURVE
        if probe.is_of(run.arm, share)
    }


def _score(
    probe: Probe, checkpoint: pathlib.Path, run: Run, config: StudyConfig
) -> float:
    with tempfile.TemporaryDirectory() as output:
        names = {
            "model": checkpoint,
            "model_name": run.model_name,
            "data_dir": config.data_dir,
            "data": config.probe_data,
            "output": output,
        }
        _call(*(part.format(**names) for part in probe.command))
        return probe.read(files.read_json(probe.report.format(**names)))


def _cpu() -> str:
    """Returns the name of the processor; on Linux alone, else its kind."""
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [x.partition(": ")[2] for x in lines if x.startswith("model name")]
    return names[0] if names else platform.machine()


def _call(*command: str) -> None:
    """Runs a module of the package.

    Raises:
      SystemExit: with its exit code, if it fails.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")]))
    code = subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, "PYTHONPATH": path},
    ).returncode
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    config_flags.run(main, StudyConfig)
