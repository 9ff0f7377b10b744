r"""Trains and probes the missing runs of a study.

    python tools/replication/study.py --study=configs/studies/objectives.toml \
        --data_dir=DIR --corpus='text/*.txt' --probe_data=DATA

Each finished run becomes a line of JSON in --results, and is not run again: the
command may be stopped at any time and repeated. First each arm tries the
study's learning rates in short trials; then all arms are trained, seed by seed,
and probed, whether their discriminator has learnt something (its "gate" in the
results) or not. A file of results belongs to one text.

With --jobs=2 two runs are made at a time, each on half of the cores: for small
encoders that is faster than one after the other. The output of a run is in
--data_dir/logs.
"""

import argparse
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from importlib import metadata
from typing import Any

import filelock
import numpy as np
import studies
from studies import ROOT, Probe, Record, Results, Run, Study

THREADS = (
    "OMP_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
"""Environment variables that limit the threads of a process."""
PACKAGES = ("electra_tf", "tensorflow", "keras", "numpy")


def main() -> None:
    """Trains and probes the missing runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", required=True)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--corpus", default="demo")
    parser.add_argument("--probe_data", help="none: nothing is probed")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    study = studies.read_study(args.study)
    path = args.results or studies.results_path(args.study, args.data_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{path}.lock", blocking=False):
        StudyRunner(study, args, Results(path)).run_all()
    print(f"All runs of {study.name} are in {path}.")


class StudyRunner:
    """Makes the missing runs of a study, several at a time."""

    def __init__(
        self, study: Study, args: argparse.Namespace, results: Results
    ) -> None:
        self.study, self.args, self.results = study, args, results
        self.probes = (
            studies.read_probes(study.probes) if args.probe_data else {}
        )
        self._lock = threading.Lock()

    def run_all(self) -> None:
        """Makes the trials of learning rates, then the runs at the best."""
        study = self.study
        self._complete([x for arm in study.arms for x in study.trials(arm)])
        by_arm = [
            study.runs(arm, self.results.learning_rate(study, arm))
            for arm in study.arms
        ]
        self._complete([x for runs in zip(*by_arm, strict=True) for x in runs])

    def _complete(self, runs: Sequence[Run]) -> None:
        """Makes the runs that have no line, or not all probes."""
        missing = [run for run in runs if not self._is_complete(run)]
        for run in missing[:1]:  # it makes the data of all
            self._make(run)
        with futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for _ in pool.map(self._make, missing[1:]):
                pass

    def _is_complete(self, run: Run) -> bool:
        record = self.results.find(run)
        return bool(record) and self._probes_of(run) <= {*record["probes"]}

    def _probes_of(self, run: Run) -> set[str]:
        if run.is_trial:
            return set()
        return {n for n, p in self.probes.items() if p.applies_to(run.arm)}

    def data_dir(self, run: Run) -> pathlib.Path:
        """Returns the root of vocabulary, records and models of a run."""
        is_own = run.arm in self.study.own_records
        own = f"data_of_{run.arm}" if is_own else ""
        return pathlib.Path(self.args.data_dir, own)

    def _make(self, run: Run) -> None:
        """Trains and probes a run."""
        model_dir = self.data_dir(run) / "models" / run.model_name
        log = pathlib.Path(self.args.data_dir, "logs", f"{run.model_name}.log")
        threads = max(1, (os.cpu_count() or 1) // self.args.jobs)
        call = functools.partial(call_module, log, threads)
        call(
            "electra_tf.run_pretraining",
            *run.flags(),
            f"--data_dir={self.data_dir(run)}",
            f"--corpus={self.args.corpus}",
            f"--model_name={run.model_name}",
        )
        record = self.results.find(run) or self._record(run, model_dir)
        self._add(record)
        for name in sorted(self._probes_of(run) - {*record["probes"]}):
            scores, rate = self._score(run, self.probes[name], model_dir, call)
            record["probes"][name] = scores
            if rate is not None:
                record.setdefault("choices", {})[name] = {"learning_rate": rate}
            self._add(record)
        scores = {k: v["1.0"] for k, v in record["probes"].items()}
        print(f"{run.name}: {record['held_out']} {scores}", flush=True)

    def _add(self, record: Record) -> None:
        with self._lock:
            self.results.add(record)

    def _record(self, run: Run, model_dir: pathlib.Path) -> Record:
        """Returns the line of a trained run, without probes."""
        path = model_dir / "results/pretraining_eval.json"
        held_out = json.loads(path.read_text("utf-8"))
        log = (model_dir / "metrics.jsonl").read_text("utf-8").splitlines()
        log = [json.loads(line) for line in log]
        speed = np.quantile([line["sequences_per_second"] for line in log], 0.9)
        rows = log[-1]["step"] * run.config.training.train_batch_size
        vocabulary = run.config.corpus.vocab_path(self.data_dir(run))
        content = pathlib.Path(vocabulary).read_bytes()
        return {
            "run": run.name,
            "arm": run.arm,
            "seed": run.seed,
            "learning_rate": run.learning_rate,
            "is_trial": run.is_trial,
            "fingerprint": run.fingerprint,
            "num_train_steps": run.num_train_steps,
            "training_flops": studies.count_flops(run.config),
            "training_seconds": float(rows / speed),
            "gate": studies.gate(held_out),
            "vocabulary": hashlib.sha256(content).hexdigest()[:16],
            "held_out": held_out,
            "probes": {},
            "versions": {name: metadata.version(name) for name in PACKAGES},
            "cpu": cpu_name(),
        }

    def _score(
        self,
        run: Run,
        probe: Probe,
        model_dir: pathlib.Path,
        call: Callable[..., None],
    ) -> tuple[dict[str, float], float | None]:
        """Returns a probe's scores along the training, and the rate chosen."""
        scores, rate = {}, None

        def score(step: int, rate: float | None, num_trials: int) -> float:
            with tempfile.TemporaryDirectory() as output:
                names = {
                    "model": f"{model_dir}/model.ckpt-{step}",
                    "model_name": model_dir.name,
                    "data_dir": self.data_dir(run),
                    "data": self.args.probe_data,
                    "output": output,
                    "learning_rate": rate,
                    "num_trials": num_trials,
                }
                call(*(part.format(**names) for part in probe.command))
                path = pathlib.Path(probe.report.format(**names))
                return probe.read(json.loads(path.read_text("utf-8")))

        for share in run.shares_probed(probe):
            step = max(1, round(share * run.num_train_steps))
            rates: Mapping[float | None, Any] = dict.fromkeys(
                probe.learning_rates or (None,)
            )
            if len(rates) > 1:
                rates = {x: score(step, x, 1) for x in rates}
            rate = max(rates, key=lambda x, found=rates: found[x] or 0)
            scores[str(share)] = score(step, rate, probe.num_trials)
        return scores, rate


def call_module(log: pathlib.Path, threads: int, *command: str) -> None:
    """Runs a module of the package, and appends its output to a log."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")]))
    limits = dict.fromkeys(THREADS, str(threads))
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as output:
        subprocess.run(
            [sys.executable, "-m", *command],
            env={**os.environ, **limits, "PYTHONPATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=True,
        )


def cpu_name() -> str:
    """Returns the name of the processor, as Linux gives it."""
    path = pathlib.Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    names = [x for x in text.splitlines() if x.startswith("model name")]
    return names[0].partition(": ")[2] if names else "unknown"


if __name__ == "__main__":
    main()
