"""Plans a pre-training for a time budget: size, batch size, updates.

python -m electra_tf.plan --hours=8 --corpus='text/*.txt' --output=plan.cfg
python -m electra_tf.run_pretraining --flagfile=plan.cfg

It estimates the number of tokens from a sample of the text, and times whole
updates of two or three sizes on random tokens, for about a minute. It proposes
the largest size that reads enough tokens per parameter in that time
(electra_tf/pretrain/plan_sizes.py says how many, and from what source), and
prints the others beside it. Run nothing else on the machine meanwhile.

The budget is the time from the start of training to the last update, without
data preparation, evaluation and export. Column GB: peak memory of the training
process. The flags of the corpus are those of run_pretraining, and are written
to the plan.
"""

import dataclasses
import os
import shlex
import textwrap
from collections.abc import Sequence
from typing import Any

from electra_tf.config.corpus import CorpusConfig
from electra_tf.pretrain import plan_measurements, planning
from electra_tf.pretrain.plan_sizes import (
    MODEL_SIZES,
    SIZE_NAMES,
    Flags,
    configure,
)
from electra_tf.pretrain.planning import Budget, PlannedRun, TimedUpdate
from electra_tf.util import (
    config_flags,
    console,
    files,
    free_memory,
    machine,
    tables,
)
from electra_tf.util.config_fields import Checked, bounded, leaves, one_of
from electra_tf.util.errors import UserError

_MAX_MEASURED = 3
_WIDTH = 79


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextConfig(CorpusConfig):
    """A corpus and its records, with defaults for a short training."""

    packing: str = one_of("packed", "carry", "original")
    """Packing of documents into rows, see run_pretraining; packed leaves
    almost no padding, on which time would be wasted."""

    held_out_fraction: float = bounded("in [0, 1)", 0.005)
    """Share of the documents kept for evaluation."""

    max_seq_length: int | None = bounded("at least 5", None)
    """Tokens in a row, [CLS] and [SEP] included; in the longest rows if there
    are phases or buckets. Default: that of the size, with its phases."""

    def _check_lengths(self) -> None:
        # None takes the length of the size, which `configure` checks.
        if self.max_seq_length is not None:
            super()._check_lengths()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanConfig(Checked):
    """A time budget and a corpus."""

    corpus: TextConfig = TextConfig()

    hours: float = bounded("positive", 0.0)
    """Hours from the start of the training to its last update. Required."""

    output: str = ""
    """File to write the configuration to; must not exist. Default: print
    it."""

    size: str = one_of("auto", *SIZE_NAMES)
    """Size to plan for; auto chooses one."""

    precision: str = one_of("float32", "bfloat16", "float16")
    """Precision of the training, see run_pretraining."""

    data_dir: str = ""
    """Root of vocabulary, records and models of the training. Default:
    data/plan_SIZE."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if os.path.exists(self.output):
            raise UserError(
                "`output` must name a new file. Received: "
                f"output={self.output!r}, which exists. Name another one, or "
                "delete it."
            )
        paths = {"data_dir": self.data_dir}
        for name, value in (self.given | paths).items():
            if problem := config_flags.problem_of_line(_flag(name, value)):
                raise UserError(
                    f"`{name}` must have no space before a #: a plan is a "
                    f"flagfile. {problem} Received: {value}. Name a link or a "
                    "copy."
                )

    @property
    def given(self) -> dict[str, Any]:
        """The flags of the training that take precedence over the plan's."""
        defaults = {x.field.name: x.field.default for x in leaves(CorpusConfig)}
        defaults["max_seq_length"] = None  # that of the size
        given = {name: getattr(self.corpus, name) for name in defaults}
        given = {n: x for n, x in given.items() if x != defaults[n]}
        if self.precision != "float32":
            given["precision"] = self.precision
        return given


def main(config: PlanConfig) -> None:
    """Measures, chooses, prints, and writes the configuration."""
    if config.output:
        files.ensure_writable(os.path.dirname(config.output) or ".")
    given = config.given
    text = plan_measurements.in_own_process(
        plan_measurements.count_tokens, configure(MODEL_SIZES[0], given)
    )
    console.say(
        f"The text has about {text.num_bytes / 1e6:,.1f} MB, "
        f"{text.num_tokens / 1e6:,.1f} million tokens of a vocabulary of "
        f"{text.vocab_size:,}."
    )
    if config.corpus.vocab_file:
        given["vocab_size"] = text.vocab_size
    budget = Budget(
        config.hours * 3600,
        text.num_tokens,
        free_memory.find().num_bytes,
    )
    chosen, candidates, timed = _choose(config.size, given, budget)
    planning.check_length(chosen)
    console.say()
    console.say(_table(candidates, chosen))
    console.say(textwrap.fill(_reason(chosen, config), _WIDTH))
    directories = {
        "data_dir": config.data_dir or f"data/plan_{chosen.size.name}",
        "model_name": f"electra_{chosen.size.name}",
    }
    flags = directories | given | planning.flags_of(chosen, given)
    header = _header(chosen, config, timed)
    content = "\n".join([*header, *map(_flag, flags, flags.values()), ""])
    if config.output:
        files.atomic_write_text(config.output, content)
        console.say(f"\nWritten: {config.output}. Train with\n")
        console.say(f"  {_command(config)}")
    else:
        console.say(f"\n{content}")


def _choose(
    size: str, given: Flags, budget: Budget
) -> tuple[PlannedRun, list[PlannedRun], TimedUpdate | None]:
    """Times updates until the chosen size is one that was timed."""
    model_sizes = [x for x in MODEL_SIZES if size in ("auto", x.name)]
    measured: dict[str, TimedUpdate] = {}
    model_size, seconds = MODEL_SIZES[0], 0.0
    while model_size.name not in measured and len(measured) < _MAX_MEASURED:
        rows = planning.rows_to_measure(configure(model_size, given), seconds)
        timed = plan_measurements.in_own_process(
            plan_measurements.measure_update, configure(model_size, given, rows)
        )
        console.say(f"Measured {model_size.name}: {_describe_update(timed)}.")
        measured[model_size.name] = timed
        candidates = [
            planning.predict(x, given, budget, measured.values())
            for x in model_sizes
        ]
        chosen = planning.choose(candidates, budget)
        model_size, seconds = chosen.size, chosen.update_seconds
    return chosen, candidates, measured.get(model_size.name)


def _describe_update(timed: TimedUpdate) -> str:
    return (
        f"{timed.seconds:.3g} s an update of "
        f"{timed.config.training.train_batch_size} rows of "
        f"{timed.config.corpus.max_seq_length} tokens, the first after "
        f"{timed.start_seconds:.1f} s; {timed.peak_bytes / 1e9:.2f} GB"
    )


def _table(candidates: Sequence[PlannedRun], chosen: PlannedRun) -> str:
    header = (
        "size, layers, parameters, tokens, tokens/parameter, minimum, epochs, "
        "FLOPs, GB"
    )
    rows = [
        (
            x.size.name,
            f"{x.shape.num_hidden_layers} x {x.shape.hidden_size}",
            f"{x.parameters / 1e6:,.1f} M",
            f"{x.tokens / 1e6:,.1f} M",
            f"{x.tokens_per_parameter:,.1f}",
            f"{x.size.min_tokens:g}",
            f"{x.passes:.2f}",
            f"{x.flops:.2e}",
            f"{x.memory_bytes / 1e9:.1f}",
        )
        for x in candidates
    ]
    notes = [_note(x, chosen) for x in candidates]
    return tables.aligned([header.split(", "), *rows], ["", *notes])


def _note(candidate: PlannedRun, chosen: PlannedRun) -> str:
    if candidate is chosen:
        return "<- chosen"
    if not candidate.fits:
        return "does not fit"
    return "" if candidate.is_enough else "too few tokens"


def _reason(chosen: PlannedRun, config: PlanConfig) -> str:
    """Says why a candidate was chosen, and whether it uses the whole budget."""
    name, min_tokens = chosen.size.name, chosen.size.min_tokens
    if config.size != "auto":
        text = f"{name} was requested."
    elif chosen.is_enough:
        text = (
            f"{name} is the largest size that fits and reads {min_tokens:g} "
            "tokens or more for each parameter of its discriminator."
        )
    else:
        text = f"No size reads enough tokens; {name} is the smallest."
    if not chosen.is_enough:
        text += (
            f" With {chosen.tokens_per_parameter:.1f} tokens per parameter, "
            f"where {min_tokens:g} is the smallest ratio known to work; expect "
            "little learning: give more --hours, or more text."
        )
    if chosen.passes > 0.99 * planning.MAX_PASSES:
        text += (
            f" Training stops after {planning.MAX_PASSES} epochs, "
            f"{config.hours - chosen.seconds / 3600:.2g} hours before the "
            "budget ends: more text would use that time."
        )
    return f"{text} Settings: {chosen.size.source}."


def _header(
    chosen: PlannedRun, config: PlanConfig, timed: TimedUpdate | None
) -> list[str]:
    """Returns the comment lines at the head of the configuration."""
    timing = (
        _describe_update(timed) if timed else "extrapolated from another size"
    )
    entries = {
        "Source": f"{chosen.size.source}. Planned by electra_tf.plan for "
        f"{config.hours:g} hours; {chosen.tokens_per_parameter:,.1f} tokens "
        "for each parameter of the discriminator.",
        "Command": _command(config),
        "Hardware": f"{machine.cpu_name()}, {machine.num_cores()} cores; "
        f"{timing}.",
        "Predicted": f"{chosen.seconds:,.0f} s to the last update, "
        f"{chosen.memory_bytes / 1e9:.2f} GB, {chosen.flops:.3e} FLOPs; "
        f"{chosen.tokens / 1e6:,.1f} million tokens, {chosen.passes:.2f} "
        "epochs.",
        "Result": "not run yet.",
    }
    lines = [
        f"# {chosen.shape.num_hidden_layers} layers of "
        f"{chosen.shape.hidden_size}, planned for a budget."
    ]
    for label, text in entries.items():
        lines += textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=f"# {label + ':':11}",
            subsequent_indent="#" + " " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _command(config: PlanConfig) -> str:
    path = shlex.quote(config.output or "plan.cfg")
    return f"python -m electra_tf.run_pretraining --flagfile={path}"


def _flag(name: str, value: Any) -> str:  # noqa: ANN401 (any flag's)
    """Writes a flag as a line of a flagfile."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    return f"--{name}={value}"


if __name__ == "__main__":
    config_flags.run(main, PlanConfig)
