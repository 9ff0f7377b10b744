"""Studies: arms that are trained at equal cost, and probes that compare them.

A study is a TOML file, as configs/studies/objectives.toml: a flagfile common to
all arms, the flags in which each arm differs, and the FLOPs of a run. Probes
are in configs/studies/probes.toml. Each finished run is a line of JSON.

Source of the recipe: none in the paper, which compares fully trained models.
"""

import dataclasses
import functools
import hashlib
import json
import math
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import electra_tf
from electra_tf import flops_computation
from electra_tf.flops_computation import FlopsConfig
from electra_tf.util import console, files
from electra_tf.util.flags import flatten, parse_flags

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBES = ROOT / "configs/studies/probes.toml"
CURVE = (0.25, 0.5, 1.0)
"""Shares of the training after which checkpoints are probed; runs keep them."""
GATE = 0.95
"""A discriminator has learnt something if its loss, divided by the entropy of
the share of replaced tokens, is at most this. Such trials choose a rate."""

Record = dict[str, Any]
"""The results of a run, a line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """A score of a trained run."""

    what: str
    """Description of the score, with its unit."""

    command: tuple[str, ...]
    """Module and flags. Placeholders: {model}, a checkpoint; {model_name}, its
    run; {data_dir}, root of the run; {data}, --probe_data; {output}, directory
    of the report; {learning_rate}, one of `learning_rates`; {num_trials}."""

    report: str
    """JSON file that the command writes."""

    value: tuple[str | int, ...]
    """Keys and places that lead to the score in the report."""

    at_end: bool = False
    """Whether only the last checkpoint is probed."""

    arms: tuple[str, ...] = ()
    """Arms that have this score; empty for all."""

    learning_rates: tuple[float, ...] = ()
    """Learning rates of a fine-tuning; each model tries all, with one trial."""

    num_trials: int = 1
    """Trials of a fine-tuning, at the rate whose first trial scored best."""

    def applies_to(self, arm: str) -> bool:
        """Returns whether an arm has this score."""
        return not self.arms or arm in self.arms

    def read(self, report: Any) -> float:  # noqa: ANN401 (any JSON)
        """Returns the score in a report."""
        for key in self.value:
            report = report[key]
        return report["value"] if isinstance(report, dict) else report


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Arms, seeds, budget and probes."""

    question: str
    """The question that the study asks."""

    source: str
    """Source of the question."""

    flagfile: str
    """Flagfile of all arms, relative to the root of the project."""

    flags: tuple[str, ...] = ()
    """Flags of all arms, after those of the flagfile."""

    baseline: str
    """The arm that the others are compared with."""

    training_flops: float
    """FLOPs of a run, as `count_flops` counts them."""

    seeds: tuple[int, ...]
    """Seeds of the runs of each arm; runs of one seed read the same data."""

    first_weights: tuple[str, ...] = ()
    """Arms whose initial weights are probed: one update, at a rate of 0."""

    own_records: tuple[str, ...] = ()
    """Arms whose flags change the records: they have a directory of their own
    for vocabulary, records and models, <data_dir>/data_of_<arm>."""

    learning_rates: tuple[float, ...]
    """Learning rates to try for each arm in short trials with the first seed,
    if there are several."""

    search_share: float = 0.125
    """Length of such a trial, as a share of the training."""

    warmup_share: float = 0.05
    """Share of the updates that are warm-up."""

    probes: tuple[str, ...] = ()
    """Names in configs/studies/probes.toml."""

    name: str = ""
    """Name of the file, without its extension."""

    arms: Mapping[str, Sequence[str]]
    """Name of an arm -> its flags."""

    def runs(self, arm: str, learning_rate: float) -> list["Run"]:
        """Returns the runs of an arm whose results are compared."""
        return [
            Run(study=self, arm=arm, seed=seed, learning_rate=learning_rate)
            for seed in self.seeds
        ]

    def trials(self, arm: str) -> list["Run"]:
        """Returns the short runs that choose an arm's learning rate."""
        if len(self.learning_rates) == 1 or arm in self.first_weights:
            return []
        return [
            Run(
                study=self,
                arm=arm,
                seed=self.seeds[0],
                learning_rate=rate,
                share=self.search_share,
            )
            for rate in self.learning_rates
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A training of an arm, with the study's FLOPs or a share of them."""

    study: Study
    arm: str
    seed: int
    learning_rate: float
    share: float = 1.0

    @property
    def is_trial(self) -> bool:
        """Whether the run only serves to choose a learning rate."""
        return self.share < 1.0

    @property
    def name(self) -> str:
        """Name of the run in the results."""
        suffix = f"rate_{self.learning_rate:g}" if self.is_trial else self.seed
        return f"{self.study.name}_{self.arm}_{suffix}"

    @property
    def model_name(self) -> str:
        """Name of its directory, which is unique to its settings."""
        return f"{self.name}_{self.fingerprint[:8]}"

    @functools.cached_property
    def num_train_steps(self) -> int:
        """Number of updates that its share of the FLOPs allows."""
        if self.arm in self.study.first_weights:
            return 1
        some = 1000
        config = _parse((*self._flags_of_arm(), f"--num_train_steps={some}"))
        budget = self.study.training_flops * self.share
        return max(1, round(budget * some / count_flops(config)))

    def shares_probed(self, probe: Probe) -> tuple[float, ...]:
        """Returns the shares of the training after which the run is probed."""
        is_once = probe.at_end or self.num_train_steps == 1
        return (1.0,) if is_once else CURVE

    def flags(self) -> list[str]:
        """Returns the flags of the training, except directories and corpus."""
        num_steps = self.num_train_steps
        warmup = max(1, round(self.study.warmup_share * num_steps))
        # A single update is too short for phases: each needs one.
        phase_flags = ["--seq_length_phases="] if num_steps == 1 else []
        return [
            *self._flags_of_arm(),
            *phase_flags,
            f"--learning_rate={self.learning_rate:g}",
            f"--seed={self.seed}",
            f"--num_train_steps={num_steps}",
            f"--num_warmup_steps={warmup}",
        ]

    @functools.cached_property
    def config(self) -> FlopsConfig:
        """The configuration that its flags give."""
        return _parse(tuple(self.flags()))

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of all that the result depends on, except the corpus."""
        non_default = _flat(self.config).items() - _flat(FlopsConfig()).items()
        whole = json.dumps([electra_tf.__version__, sorted(non_default)])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def _flags_of_arm(self) -> list[str]:
        arm_flags = [
            flag.replace("--flagfile=", f"--flagfile={ROOT}/")
            for flag in self.study.arms[self.arm]
        ]
        flagfile = f"--flagfile={ROOT / self.study.flagfile}"
        return [flagfile, *self.study.flags, *arm_flags]


class Results:
    """The lines of a study's results, a file of JSON."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self.records: list[Record] = [json.loads(line) for line in lines]

    def find(self, run: Run) -> Record | None:
        """Returns the line of a run with these settings, if there is one."""
        for record in reversed(self.records):
            key = record["run"], record["fingerprint"]
            if key == (run.name, run.fingerprint):
                return record
        return None

    def add(self, record: Record) -> None:
        """Writes the line of a run, replacing one with the same settings."""
        key = record["run"], record["fingerprint"]
        self.records = [
            x for x in self.records if (x["run"], x["fingerprint"]) != key
        ] + [record]
        text = "".join(json.dumps(x) + "\n" for x in self.records)
        files.atomic_write_text(self._path, text)

    def learning_rate(self, study: Study, arm: str) -> float | None:
        """Returns the rate of the trial that learnt most; None before it ran.

        Trials of discriminators that have learnt nothing decide nothing.
        """
        trials = study.trials(arm)
        if not trials:
            return study.learning_rates[0]
        records = [self.find(run) for run in trials]
        if not all(records):
            return None
        learnt = [x for x in records if (x["gate"] or 0) <= GATE]
        if not learnt:
            console.warn(f"{arm}: no trial has learnt, so none chose its rate.")
            return study.learning_rates[0]
        best = min(learnt, key=lambda x: x["gate"] or x["held_out"]["loss"])
        return best["learning_rate"]


def gate(held_out: Mapping[str, float]) -> float | None:
    """Returns the discriminator's loss relative to a constant guess."""
    if "disc_loss" not in held_out:
        return None
    p = held_out["replaced_share"]
    if not 0 < p < 1:
        return 1.0
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    return held_out["disc_loss"] / entropy


def count_flops(config: FlopsConfig) -> int:
    """Counts the FLOPs of a run, by the paper's rules except for embeddings.

    Differs: an embedding lookup costs nothing; it is not a product with a
    one-hot vector. In networks of two layers of 128 that product would be more
    than half of an update.
    """
    counts = flops_computation.config_flops(config, sparse_embed_lookup=True)
    return counts["whole run"]


def read_study(path: str) -> Study:
    """Reads a study."""
    values = tomllib.loads(pathlib.Path(path).read_text("utf-8"))
    return Study(**_tuples(values), name=pathlib.Path(path).stem)


def results_path(study: str, data_dir: str = "") -> pathlib.Path:
    """Returns the default path of a study's results."""
    path = pathlib.Path(study).with_suffix(".jsonl")
    return pathlib.Path(data_dir, "studies", path.name) if data_dir else path


def read_probes(names: Sequence[str]) -> dict[str, Probe]:
    """Reads probes by name."""
    values = tomllib.loads(PROBES.read_text("utf-8"))
    return {name: Probe(**_tuples(values[name])) for name in names}


@functools.cache  # a run is made again for each question about it
def _parse(flags: tuple[str, ...]) -> FlopsConfig:
    return parse_flags(FlopsConfig, flags)


def _flat(config: FlopsConfig) -> dict[str, str]:
    """Returns field -> value, for the fields that affect results."""
    parts = dataclasses.asdict(config)
    kept = {k: v for k, v in parts.items() if k not in config.FREE_PARTS}
    kept["num_eval_steps"] = config.runtime.num_eval_steps  # of the gate
    return {k: repr(v) for k, v in flatten(kept).items()}


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
    }
