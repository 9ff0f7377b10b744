r"""Trains and probes the missing runs of a study.

    python tools/replication/study.py --study=configs/studies/objectives.toml \
        --data_dir=DIR --corpus='text/*.txt' --probe_data=DATA

Each finished run becomes a line of JSON in --results, and is not run again: the
command may be stopped at any time, by Ctrl-C or SIGTERM, and repeated. Lines of
another version or other settings are kept but ignored, with a warning, and
their runs are repeated. A file of results belongs to one text: if it has a line
with another vocabulary than that of --data_dir, nothing is trained. If another
study in the directory of --results has a run with the same settings, its line
is copied; probes that it lacks are run on its model.
First each arm tries the study's learning rates in short trials; then all arms
are trained, seed by seed. A run whose discriminator has not learnt is not
probed. A probe that is added to a study later is run on the models of its
finished runs; a model that is gone is trained again.

With --jobs=2 two runs are made at a time, each on half of the cores: for small
encoders that is faster than one after the other. The output of a run is in
--data_dir/logs.
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from importlib import metadata
from typing import Any

import studies
import study_results
from studies import ROOT, Probe, Run, Study
from study_results import Record, Results

from electra_tf.util import console, files
from electra_tf.util.errors import UserError
from electra_tf.util.files import lock_directory
from electra_tf.util.flags import Checked, bounded, required, run_command

GATE = 0.95
"""A run is probed if its discriminator's loss, divided by the entropy of the
share of replaced tokens, is at most this."""

_THREADS = (
    "OMP_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
"""Environment variables that limit the threads of a process."""
_MANIFEST = "pretrain_tfrecords/manifest.json"
_LOGGED_METRICS = ("gate", "disc_auc", "masked_lm_loss", "loss")
_PACKAGES = ("electra_tf", "tensorflow", "keras", "numpy")

_running: set[subprocess.Popen] = set()
"""Commands that `_call` waits for."""

Call = Callable[..., None]
"""Runs a module of the package with flags."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyConfig(Checked):
    """Which study to run, on which corpus."""

    study: str = required()
    """TOML file of the study, as configs/studies/objectives.toml. Required."""

    data_dir: str = required()
    """Root of vocabulary, records and models. Required."""

    corpus: str = "demo"
    """Text for pre-training, as run_pretraining takes it."""

    probe_data: str = ""
    """Directory of the probes' data; without it nothing is probed."""

    results: str = ""
    """File of results, JSON lines, of one text. Default:
    <data_dir>/studies/NAME.jsonl for a study NAME.toml."""

    jobs: int = bounded(1, 1)
    """Number of runs at a time."""

    @property
    def results_path(self) -> pathlib.Path:
        """Path of the results."""
        return pathlib.Path(
            self.results or studies.results_path(self.study, self.data_dir)
        )


@console.interruptible()
def main(config: StudyConfig) -> None:
    """Trains and probes the missing runs."""
    study = studies.read_study(config.study)
    probes = studies.read_probes(study.probes) if config.probe_data else {}
    files.ensure_writable(config.results_path.parent)
    path = config.results_path
    with lock_directory(path.parent, f"{path.name}.lock"):
        _run_all(study, config, probes, Results(path))
    console.say(f"All runs of {study.name} are in {path}.")


def _run_all(
    study: Study,
    config: StudyConfig,
    probes: Mapping[str, Probe],
    results: Results,
) -> None:
    """Makes the trials of learning rates, then the runs at the best."""
    trials = [run for arm in study.arms for run in study.trials(arm)]
    _complete_all(trials, config, {}, results)
    rates = {arm: results.learning_rate(study, arm) for arm in study.arms}
    runs_by_arm = [study.runs(arm, rate) for arm, rate in rates.items()]
    runs = [
        run
        for runs_of_seed in zip(*runs_by_arm, strict=True)
        for run in runs_of_seed
    ]
    _complete_all(runs, config, probes, results)


def _complete_all(
    runs: Sequence[Run],
    config: StudyConfig,
    probes: Mapping[str, Probe],
    results: Results,
) -> None:
    """Makes the runs that have no line; starts none after a failure."""
    missing = [
        run
        for run in runs
        if not _is_complete(
            _find(run, config, results), _probes_of(run, probes)
        )
        and not _copy_result(run, config, probes, results)
    ]
    is_stopping = threading.Event()

    def complete(run: Run) -> None:
        if not is_stopping.is_set():
            with _stops_others(is_stopping):
                _train_and_probe(run, config, probes, results)

    with (
        futures.ThreadPoolExecutor(config.jobs) as pool,
        _stops_others(is_stopping),
    ):
        pending = []
        for run in missing:
            has_data = (_data_dir(run, config) / _MANIFEST).exists()
            pending.append(pool.submit(complete, run))
            if not has_data:
                _wait_for_data(pending[-1], _model_dir(run, config))
        for done in futures.as_completed(pending):
            done.result()


@contextlib.contextmanager
def _stops_others(is_stopping: threading.Event) -> Iterator[None]:
    """Sets an event on a failure; after a signal, ends all commands, too."""
    try:
        yield
    except BaseException as error:
        is_stopping.set()
        if isinstance(error, KeyboardInterrupt):
            for process in [*_running]:
                process.terminate()
        raise


def _find(run: Run, config: StudyConfig, results: Results) -> Record | None:
    """Returns the line of a run; None if there is none that counts."""
    record, vocabulary = results.find(run), _vocabulary(run, config)
    if record and record["vocabulary"] != vocabulary:
        path = _vocabulary_path(run, config)
        raise UserError(
            f"{config.results_path} must hold results for the text of "
            f"--data_dir. Received: {run.name} with the vocabulary "
            f"{record['vocabulary']}; {path} is "
            f"{vocabulary or 'missing'}. For another text, set "
            "--results=DIR/NAME.jsonl; for the same text, copy its "
            f"{path.name} there."
        )
    return record


def _wait_for_data(run: futures.Future, model_dir: pathlib.Path) -> None:
    """Waits until a run trains: then vocabulary and records are complete."""
    while not (model_dir / "metrics.jsonl").exists():
        if futures.wait([run], timeout=0.1).done:
            break


def _copy_result(
    run: Run, config: StudyConfig, probes: Mapping[str, Probe], results: Results
) -> bool:
    """Copies the line of a run with the same settings from another study."""
    wanted = _probes_of(run, probes)
    found = [
        record
        for record in results.from_other_studies(run)
        if record["vocabulary"] == _vocabulary(run, config)
    ]
    complete = [record for record in found if _is_complete(record, wanted)]
    is_new = not results.find(run) and _model_dir(run, config).exists()
    for record in (complete or (found if is_new else []))[:1]:
        renamed = {"run": run.name, "arm": run.arm, "is_trial": run.is_trial}
        results.add({**record, **renamed})
        console.say(f"{run.name}: copied from {record['run']}, same settings.")
    return bool(complete)


def _train_and_probe(
    run: Run, config: StudyConfig, probes: Mapping[str, Probe], results: Results
) -> None:
    """Trains and probes a run."""
    location = {
        "data_dir": _data_dir(run, config),
        "corpus": config.corpus,
        "model_name": _model_dir(run, config).name,
    }
    flags = [f"--{name}={value}" for name, value in location.items()]
    log = pathlib.Path(config.data_dir) / "logs" / f"{run.model_name}.log"
    threads = max(1, console.num_cores() // config.jobs)
    call = functools.partial(_call, log, threads)
    call("electra_tf.run_pretraining", *run.flags(), *flags)
    record = results.find(run) or _record(run, config)
    missing = {
        name: probe
        for name, probe in _probes_of(run, probes).items()
        if name not in record["probes"] and _is_probed(record["gate"])
    }
    results.add(record)
    for name, scores, choice in _probe(run, missing, config, call):
        record["probes"][name] = scores
        if choice:
            record.setdefault("choices", {})[name] = choice
        results.add(record)
    figures = record["held_out"] | {"gate": record["gate"]}
    shown = [f"{k} {figures[k]:.4g}" for k in _LOGGED_METRICS if figures.get(k)]
    shown += [f"{k} {v['1.0']:.4g}" for k, v in record["probes"].items()]
    console.say(f"{run.name}: {', '.join(shown)}")


def _record(run: Run, config: StudyConfig) -> Record:
    """Returns the line of a trained run, without probes."""
    model_dir = _model_dir(run, config)
    held_out = files.read_object(model_dir / "results/pretraining_eval.json")
    gate = (
        None if run.has_energies else study_results.share_of_entropy(held_out)
    )
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
        "training_seconds": study_results.training_seconds(
            study_results.read_lines(model_dir / "metrics.jsonl"),
            run.config.training.train_batch_size,
        ),
        "gate": gate,
        "vocabulary": _vocabulary(run, config),
        "held_out": held_out,
        "probes": {},
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "cpu": platform.machine(),
    }


def _data_dir(run: Run, config: StudyConfig) -> pathlib.Path:
    """Returns the root of vocabulary, records and models of a run."""
    is_own = run.arm in run.study.own_records
    own = f"data_of_{run.arm}" if is_own else ""
    return pathlib.Path(config.data_dir, own)


def _model_dir(run: Run, config: StudyConfig) -> pathlib.Path:
    """Returns the directory of a model with the run's settings."""
    models = _data_dir(run, config) / "models"
    shared = sorted(models.glob(f"*_{run.fingerprint[:8]}"))
    return shared[0] if shared else models / run.model_name


def _is_complete(record: Record | None, probes: Mapping[str, Probe]) -> bool:
    """Returns whether a line exists and has all its probes."""
    return record is not None and (
        probes.keys() <= record["probes"].keys()
        or not _is_probed(record["gate"])
    )


def _probes_of(run: Run, probes: Mapping[str, Probe]) -> dict[str, Probe]:
    return {
        name: probe
        for name, probe in probes.items()
        if not run.is_trial and probe.applies_to(run.arm)
    }


def _is_probed(gate: float | None) -> bool:
    return gate is None or gate <= GATE


def _vocabulary(run: Run, config: StudyConfig) -> str:
    """Returns a digest of the vocabulary; empty if there is none yet."""
    path = _vocabulary_path(run, config)
    if not path.exists():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _vocabulary_path(run: Run, config: StudyConfig) -> pathlib.Path:
    corpus = run.config.corpus
    if corpus.vocab_file:
        return pathlib.Path(corpus.vocab_file)
    return _data_dir(run, config) / corpus.default_vocab_name


def _probe(
    run: Run, probes: Mapping[str, Probe], config: StudyConfig, call: Call
) -> Iterator[tuple[str, dict[str, float], dict[str, float]]]:
    """Yields each probe's name, scores and choices."""
    names = {
        "model_name": _model_dir(run, config).name,
        "data_dir": _data_dir(run, config),
        "data": config.probe_data,
    }
    reports: dict[tuple, Any] = {}

    def report(
        probe: Probe, model: str, rate: float | None, num_trials: int
    ) -> Any:  # noqa: ANN401 (any JSON)
        key = (model, rate, num_trials, probe.report, *probe.command)
        if key not in reports:
            fine_tuning = {"learning_rate": rate, "num_trials": num_trials}
            reports[key] = _report(
                probe, {**names, "model": model, **fine_tuning}, call
            )
        return reports[key]

    for name, probe in probes.items():
        scores, choice = {}, {}
        for share in run.shares_probed(probe):
            step = max(1, round(share * run.num_train_steps))
            model = f"{_model_dir(run, config)}/model.ckpt-{step}"
            rates = probe.learning_rates or (None,)
            if len(rates) > 1:
                tried = [probe.read(report(probe, model, x, 1)) for x in rates]
                rates = [rates[tried.index(max(tried))]]
            found = report(probe, model, rates[0], probe.num_trials)
            scores[str(share)] = probe.read(found)
            choice = {"learning_rate": rates[0], "layer": probe.layer(found)}
        yield name, scores, {k: v for k, v in choice.items() if v is not None}


def _report(probe: Probe, names: Mapping[str, Any], call: Call) -> Any:  # noqa: ANN401 (any JSON)
    with tempfile.TemporaryDirectory() as output:
        names = {**names, "output": output}
        call(*(part.format(**names) for part in probe.command))
        return files.read_json(probe.report.format(**names))


def _call(log: pathlib.Path, threads: int, *command: str) -> None:
    """Runs a module of the package, and appends its output to a log."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")]))
    limits = dict.fromkeys(_THREADS, str(threads))
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a") as output,
        subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, **limits, "PYTHONPATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches it once, through us
        ) as process,
    ):
        _running.add(process)
        code = process.wait()
        _running.remove(process)
    if code:
        console.warn(f"{command[0]} ended with code {code}: see {log}.")
        raise SystemExit(code)


if __name__ == "__main__":
    run_command(main, StudyConfig)
