"""Studies: arms that are trained at equal cost, and probes that compare them.

A study is a TOML file, as configs/studies/objectives.toml: a flagfile common to
all arms, the flags in which each arm differs, and the FLOPs of a run. Probes
are in configs/studies/probes.toml.

Source of the recipe: none in the paper, which compares fully trained models.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import electra_tf
from electra_tf import flops_computation
from electra_tf.config.objectives import get_class
from electra_tf.flops_computation import FlopsConfig
from electra_tf.util.errors import UserError
from electra_tf.util.flags import flatten, parse_flags

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBES = ROOT / "configs/studies/probes.toml"
CURVE = (0.25, 0.5, 1.0)
"""Shares of the training after which checkpoints are probed; runs keep them."""

_ANY_STEPS = 1000  # to count the FLOPs of an update
_DECIDED = ("learning_rate", "seed", "num_train_steps", "num_warmup_steps")


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
    """Keys and places that lead to the score in the report; of a list, the
    maximum."""

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
        """Returns the score in a report; of one for each layer, the best."""
        return max(self._scores(report))

    def layer(self, report: Any) -> int | None:  # noqa: ANN401 (any JSON)
        """Returns the best layer, if the report has a score for each."""
        scores = self._scores(report)
        return scores.index(max(scores)) if len(scores) > 1 else None

    def _scores(self, report: Any) -> list[float]:  # noqa: ANN401 (any JSON)
        for key in self.value:
            report = report[key]
        values = report if isinstance(report, list) else [report]
        return [x["value"] if isinstance(x, dict) else x for x in values]


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
    """Learning rates to try for each arm. If there are several, short trials
    with the first seed choose the one with the lowest gate or, without a
    discriminator, the lowest held-out loss."""

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

    def __post_init__(self) -> None:
        if self.baseline not in self.arms:
            raise UserError(
                f"`baseline` of {self.name} must be one of its arms, "
                f"{', '.join(self.arms)}. Received: {self.baseline}."
            )
        for field in ("first_weights", "own_records"):
            if unknown := set(getattr(self, field)) - self.arms.keys():
                raise UserError(
                    f"`{field}` of {self.name} must be of its arms, "
                    f"{', '.join(self.arms)}. Received: {', '.join(unknown)}."
                )
        self._check_flags()

    def _check_flags(self) -> None:
        """Refuses flags whose values the study decides."""
        for flag in itertools.chain(self.flags, *self.arms.values()):
            if flag.partition("=")[0].lstrip("-") in _DECIDED:
                raise UserError(
                    f"Flags of {self.name} must not set what a study decides, "
                    f"{', '.join(_DECIDED)}. Received: {flag}. Set "
                    "learning_rates, seeds, training_flops or warmup_share."
                )

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
    """A training of an arm."""

    study: Study
    """The study that the run belongs to."""

    arm: str
    """Name of the arm."""

    seed: int
    """Seed of weights, masks, samples and the order of the data."""

    learning_rate: float
    """Peak learning rate."""

    share: float = 1.0
    """Share of the study's FLOPs."""

    @property
    def is_trial(self) -> bool:
        """Whether the run only serves to choose a learning rate."""
        return self.share < 1.0

    @property
    def has_energies(self) -> bool:
        """Whether it is trained as an energy-based model, as Electric is."""
        objective = get_class(self.config.objective.objective)
        return objective.token_output == "energies"

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
        config = self._parse([f"--num_train_steps={_ANY_STEPS}"])
        budget = self.study.training_flops * self.share
        return max(1, round(budget * _ANY_STEPS / count_flops(config)))

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
        return self._parse(self.flags())

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of everything that the result depends on, except the
        corpus."""
        non_default = _flat(self.config).items() - _flat(FlopsConfig()).items()
        whole = json.dumps([electra_tf.__version__, sorted(non_default)])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def _flags_of_arm(self) -> list[str]:
        flagfile = f"--flagfile={ROOT / self.study.flagfile}"
        arm_flags = map(_resolve_flagfile, self.study.arms[self.arm])
        return [flagfile, *self.study.flags, *arm_flags]

    def _parse(self, flags: Sequence[str]) -> FlopsConfig:
        return _parse_flags((*self._flags_of_arm(), *flags))


@functools.cache  # a run is made again for each question about it
def _parse_flags(flags: tuple[str, ...]) -> FlopsConfig:
    return parse_flags(FlopsConfig, flags)


def _flat(config: FlopsConfig) -> dict[str, str]:
    """Returns field -> value, for the fields that affect results."""
    parts = dataclasses.asdict(config)
    kept = {k: v for k, v in parts.items() if k not in config.FREE_PARTS}
    kept["num_eval_steps"] = config.runtime.num_eval_steps  # of the gate
    return {k: repr(v) for k, v in flatten(kept).items()}


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
    values = _read_toml(pathlib.Path(path))
    return _make(Study, {**values, "name": pathlib.Path(path).stem}, path)


def results_path(study: str, data_dir: str = "") -> pathlib.Path:
    """Returns the default path of a study's results."""
    path = pathlib.Path(study).with_suffix(".jsonl")
    return pathlib.Path(data_dir, "studies", path.name) if data_dir else path


def read_probes(names: Sequence[str]) -> dict[str, Probe]:
    """Reads probes by name."""
    known = _read_toml(PROBES)
    if unknown := [name for name in names if name not in known]:
        raise UserError(
            f"`probes` must be of {', '.join(known)} ({PROBES}). Received: "
            f"{', '.join(unknown)}."
        )
    return {name: _make(Probe, known[name], PROBES) for name in names}


def _make(kind: type, values: Mapping[str, Any], path: Any) -> Any:  # noqa: ANN401
    fields = dataclasses.fields(kind)
    known = {field.name for field in fields}
    needed = {f.name for f in fields if f.default is dataclasses.MISSING}
    if bad_fields := (values.keys() - known) | (needed - values.keys()):
        raise UserError(
            f"{path} must have {', '.join(sorted(needed))}, and may have "
            f"{', '.join(sorted(known - needed))}. Received: missing or "
            f"unknown {', '.join(sorted(bad_fields))}."
        )
    try:
        return kind(
            **{
                k: tuple(v) if isinstance(v, list) else v
                for k, v in values.items()
            }
        )
    except (TypeError, UserError) as error:
        raise UserError(f"{path}: {error}") from error


def _read_toml(path: pathlib.Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(
            f"{path} must be a file of TOML. Received: {error}."
        ) from error


def _resolve_flagfile(flag: str) -> str:
    name, _, path = flag.partition("=")
    return f"{name}={ROOT / path}" if name == "--flagfile" else flag
