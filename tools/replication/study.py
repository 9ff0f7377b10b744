"""Trains and probes what a study lacks, one run after another.

    python tools/replication/study.py --study=configs/studies/objectives.toml \
        --data_dir=DIR --corpus='text/*.txt' --probe_data=DATA

Each run that is finished becomes a line of JSON in --results; what has one is
not run again, so that the command may be stopped at any time and given again. A
line of another version of the package or of other settings does not count: it
is named, stays where it is, and its run is made again. A run that a study
beside --results has made with the same settings is taken from there. First each
arm tries the study's learning rates, for a short time; then all arms are
trained, seed by seed. A run whose discriminator has not learnt is not probed. A
probe that the study got later is made of the models of its finished runs; one
whose model is gone is trained again.
With --jobs=2 two runs are made at a time, each with half of the cores: for
small encoders that is faster than one after the other. What a run prints is in
--data_dir/logs.

Source of the gate: none; a discriminator that knows the share of replaced
tokens alone has the entropy of that share as its loss.
"""

import dataclasses
import functools
import hashlib
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from importlib import metadata
from typing import Any

import studies
import study_results
from studies import ROOT, Probe, Run
from study_results import Record, Results

from electra_tf.util import config_flags, console, files, machine
from electra_tf.util.config_fields import require
from electra_tf.util.errors import UserError

GATE = 0.95
"""Greatest loss of a discriminator that is probed, as a share of the entropy of
the share of replaced tokens."""

_THREADS = (
    "OMP_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
"""Variables that limit a process's threads."""
_MANIFEST = "pretrain_tfrecords/manifest.json"
_SHOWN = ("gate", "disc_auc", "masked_lm_loss", "loss")
_PACKAGES = ("electra_tf", "tensorflow", "keras", "numpy")

Call = Callable[..., None]
"""Runs a module with flags."""


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

    jobs: int = 1
    """Runs at a time."""

    def __post_init__(self) -> None:
        require(self, "jobs", "at least 1", lambda x: x > 0)
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
    trials = [run for arm in study.arms for run in study.trials(arm)]
    _finish_all(trials, config, {}, results)
    rates = {arm: results.learning_rate(study, arm) for arm in study.arms}
    of_arms = [study.runs(arm, rate) for arm, rate in rates.items()]
    runs = [run for of_seed in zip(*of_arms, strict=True) for run in of_seed]
    _finish_all(runs, config, probes, results)
    console.say(f"All runs of {study.name} are in {config.results_path}.")


def _finish_all(
    runs: Sequence[Run],
    config: StudyConfig,
    probes: Mapping[str, Probe],
    results: Results,
) -> None:
    """Makes the runs without a line; none is begun after one that failed."""
    missing = [
        run
        for run in runs
        if not _is_whole(results.find(run), _probes_of(run, probes))
        and not _take_over(run, config, probes, results)
    ]
    has_data = pathlib.Path(config.data_dir, _MANIFEST).exists()
    is_over = threading.Event()

    def finish(run: Run) -> None:
        if is_over.is_set():
            return
        try:
            _finish(run, config, probes, results)
        except BaseException:
            is_over.set()
            raise

    with futures.ThreadPoolExecutor(config.jobs) as pool:
        try:
            waiting = [pool.submit(finish, run) for run in missing[:1]]
            if missing and not has_data:
                _wait_for_data(waiting[0], _model_dir(missing[0], config))
            waiting += [pool.submit(finish, run) for run in missing[1:]]
            for done in futures.as_completed(waiting):
                done.result()
        except BaseException:  # an interrupt of this process alone, too
            is_over.set()
            raise


def _wait_for_data(run: futures.Future, model_dir: pathlib.Path) -> None:
    """Waits until a run trains: vocabulary and records are complete then."""
    while not (run.done() or (model_dir / "metrics.jsonl").exists()):
        time.sleep(0.1)


def _take_over(
    run: Run, config: StudyConfig, probes: Mapping[str, Probe], results: Results
) -> bool:
    """Copies the line of a run of the same settings from a study beside.

    Returns:
      Whether there is one, on the same vocabulary and with all the probes.
    """
    wanted = _probes_of(run, probes)
    for record in results.beside(run):
        is_of_text = record["vocabulary"] == _vocabulary(config)
        if is_of_text and _is_whole(record, wanted):
            mine = {"run": run.name, "arm": run.arm, "is_trial": run.is_trial}
            results.add({**record, **mine})
            console.say(f"{run.name}: {record['run']}, of the same settings.")
            return True
    return False


def _finish(
    run: Run, config: StudyConfig, probes: Mapping[str, Probe], results: Results
) -> None:
    """Trains and probes a run."""
    place = {
        "data_dir": config.data_dir,
        "corpus": config.corpus,
        "model_name": run.model_name,
    }
    flags = [f"--{name}={value}" for name, value in place.items()]
    log = pathlib.Path(config.data_dir) / "logs" / f"{run.model_name}.log"
    threads = max(1, (os.cpu_count() or 1) // config.jobs)
    call = functools.partial(_call, log, threads)
    call("electra_tf.run_pretraining", *run.flags(), *flags)
    record = results.find(run) or _record(run, config)
    missing = {
        name: probe
        for name, probe in _probes_of(run, probes).items()
        if name not in record["probes"] and _is_probed(record["gate"])
    }
    results.add(record)
    for name, scores in _probe(run, missing, config, call):
        record["probes"][name] = scores
        results.add(record)
    figures = record["held_out"] | {"gate": record["gate"]}
    shown = [f"{k} {figures[k]:.4g}" for k in _SHOWN if figures.get(k)]
    shown += [f"{k} {v['1.0']:.4g}" for k, v in record["probes"].items()]
    console.say(f"{run.name}: {', '.join(shown)}")


def _record(run: Run, config: StudyConfig) -> Record:
    """Returns the line of a run that is trained, without probes."""
    model_dir = _model_dir(run, config)
    held_out = files.read_object(model_dir / "results/pretraining_eval.json")
    gate = share_of_entropy(held_out)
    if not (_is_probed(gate) or run.is_trial):
        console.warn(f"{run.name}: not probed, its gate is {gate:.3f}.")
    return {
        "run": run.name,
        "arm": run.arm,
        "seed": run.seed,
        "learning_rate": run.learning_rate,
        "is_trial": run.is_trial,
        "fingerprint": run.fingerprint,
        "num_train_steps": run.num_train_steps,
        "training_flops": studies.count_flops(run.config),
        "training_seconds": training_seconds(
            study_results.read_lines(model_dir / "metrics.jsonl"),
            run.config.training.train_batch_size,
        ),
        "gate": gate,
        "vocabulary": _vocabulary(config),
        "held_out": held_out,
        "probes": {},
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "cpu": machine.cpu_name(),
    }


def _model_dir(run: Run, config: StudyConfig) -> pathlib.Path:
    return pathlib.Path(config.data_dir, "models", run.model_name)


def _is_whole(record: Record | None, probes: Mapping[str, Probe]) -> bool:
    """Returns whether there is a line with all that it can have."""
    return record is not None and (
        probes.keys() <= record["probes"].keys()
        or not _is_probed(record["gate"])
    )


def _probes_of(run: Run, probes: Mapping[str, Probe]) -> dict[str, Probe]:
    return {
        name: probe
        for name, probe in probes.items()
        if not run.is_trial and probe.is_of(run.arm)
    }


def _is_probed(gate: float | None) -> bool:
    return gate is None or gate <= GATE


def _vocabulary(config: StudyConfig) -> str:
    """Returns a digest of the vocabulary; empty before there is one."""
    path = pathlib.Path(config.data_dir, "vocab.txt")
    if not path.exists():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def share_of_entropy(held_out: Mapping[str, float]) -> float | None:
    """Compares a discriminator with one that knows the share of fakes alone.

    Args:
      held_out: metrics of the evaluation.

    Returns:
      Its loss over the entropy of the share of replaced tokens, 1 where it has
      learnt nothing or there was nothing to learn; None where there is no
      discriminator.
    """
    if "disc_loss" not in held_out:
        return None
    p = held_out["replaced_share"]
    if not 0 < p < 1:
        return 1.0
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    return held_out["disc_loss"] / entropy


def training_seconds(
    log: Sequence[Mapping[str, float]], batch_size: int
) -> float:
    """Returns the seconds of all updates, at the speed of an undisturbed one.

    That is the log's ninth decile: neither tracing nor what other processes
    took is counted.
    """
    speeds = [line["sequences_per_second"] for line in log]
    if len(speeds) == 1:
        return log[-1]["step"] * batch_size / speeds[0]
    speed = statistics.quantiles(speeds, n=10, method="inclusive")[-1]
    return log[-1]["step"] * batch_size / speed


def _probe(
    run: Run, probes: Mapping[str, Probe], config: StudyConfig, call: Call
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields a probe and its scores: share of the training -> score.

    Probes of one command read one report.
    """
    names = {
        "model_name": run.model_name,
        "data_dir": config.data_dir,
        "data": config.probe_data,
    }
    reports: dict[tuple, Any] = {}

    def score(
        probe: Probe, model: str, rate: float | None, num_trials: int
    ) -> float:
        key = (model, rate, num_trials, probe.report, *probe.command)
        if key not in reports:
            asked = {"learning_rate": rate, "num_trials": num_trials}
            reports[key] = _report(
                probe, {**names, "model": model, **asked}, call
            )
        return probe.read(reports[key])

    for name, probe in probes.items():
        scores = {}
        for share in run.shares_probed(probe):
            step = round(share * run.num_train_steps)
            model = f"{_model_dir(run, config)}/model.ckpt-{step}"
            rates = probe.learning_rates or (None,)
            if len(rates) > 1:
                tried = [score(probe, model, rate, 1) for rate in rates]
                rates = [rates[tried.index(max(tried))]]
            scores[str(share)] = score(probe, model, rates[0], probe.num_trials)
        yield name, scores


def _report(probe: Probe, names: Mapping[str, Any], call: Call) -> Any:  # noqa: ANN401 (any JSON)
    with tempfile.TemporaryDirectory() as output:
        names = {**names, "output": output}
        call(*(part.format(**names) for part in probe.command))
        return files.read_json(probe.report.format(**names))


def _call(log: pathlib.Path, threads: int, *command: str) -> None:
    """Runs a module of the package; its output is added to a log.

    Raises:
      SystemExit: with its exit code, if it fails.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")]))
    limits = dict.fromkeys(_THREADS, str(threads))
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as output:
        code = subprocess.run(
            [sys.executable, "-m", *command],
            env={**os.environ, **limits, "PYTHONPATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
        ).returncode
    if code:
        console.warn(f"{command[0]} ended with code {code}: see {log}.")
        raise SystemExit(code)


if __name__ == "__main__":
    config_flags.run(main, StudyConfig)
