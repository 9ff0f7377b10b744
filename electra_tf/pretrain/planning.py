"""Chooses the size of a pre-training for a budget of time.

Timing an update of one or more of the sizes in `plan_sizes.MODEL_SIZES`
(`plan_measurements.py`) gives the FLOPs per second of the machine. `predict`
then predicts the training of each size within the budget, and `choose` takes
the largest that reads enough tokens for its parameters.

No training reads its text more than `MAX_PASSES` times. Four passes are nearly
as good as new text, and the gain from further ones ends at about sixteen
(Muennighoff et al., 2023, "Scaling Data-Constrained Language Models", of
left-to-right models; not measured here).
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain.plan_sizes import (
    Flags,
    ModelSize,
    configure,
    mean_flops,
    mean_tokens,
    memory_bytes,
    num_micro_batches,
    parameters,
    settings,
)
from electra_tf.util.errors import UserError

MAX_PASSES = 10

MIN_STEPS = 100
"""Updates of the shortest training that is proposed."""

MAX_UPDATE_SECONDS = 2.0
"""Maximum predicted duration of an update that is timed."""

_SHARE_OF_WARMUP = 0.01  # of the updates, as in the paper's Small
_MIN_WARMUP, _MAX_WARMUP = 200, 10_000  # the demo's, the paper's
_SECONDS_BETWEEN_CHECKPOINTS = 600
_SECONDS_BETWEEN_LOGS = 30


class TimedUpdate(NamedTuple):
    """A timed update."""

    config: PretrainingConfig
    seconds: float
    start_seconds: float
    peak_bytes: float


class Budget(NamedTuple):
    """Limits of a training."""

    seconds: float
    text_tokens: float
    memory_bytes: float = math.inf


class PlannedRun(NamedTuple):
    """A training of one size within a budget."""

    size: ModelSize
    shape: BertConfig
    num_steps: int
    num_pieces: int
    start_seconds: float
    update_seconds: float
    tokens: float
    passes: float
    flops: float
    memory_bytes: float
    fits: bool

    @property
    def seconds(self) -> float:
        """Seconds from the start to the last update."""
        return self.start_seconds + self.num_steps * self.update_seconds

    @property
    def parameters(self) -> int:
        """Parameters of the discriminator."""
        return parameters(self.shape)

    @property
    def tokens_per_parameter(self) -> float:
        """Tokens read for each parameter of the discriminator."""
        return self.tokens / self.parameters

    @property
    def is_enough(self) -> bool:
        """Whether it reads enough tokens for its size."""
        return self.tokens_per_parameter >= self.size.min_tokens


def predict(
    size: ModelSize,
    given: Flags,
    budget: Budget,
    measured: Collection[TimedUpdate],
) -> PlannedRun:
    """Predicts the training of a size within a budget."""
    config = configure(size, given)
    timed = _nearest(config, measured)
    seconds = mean_flops(config) / mean_flops(timed.config) * timed.seconds
    start_seconds = timed.start_seconds * len(config.phases)
    tokens = mean_tokens(config)
    num_steps = min(
        (budget.seconds - start_seconds) / seconds,
        MAX_PASSES * budget.text_tokens / tokens,
    )
    num_steps = max(0, int(num_steps))
    other_bytes = max(0.0, timed.peak_bytes - memory_bytes(timed.config))
    other_bytes += config.data.shuffle_megabytes * 1e6
    num_pieces = num_micro_batches(config, budget.memory_bytes - other_bytes)
    needed = other_bytes + memory_bytes(config, num_pieces)
    return PlannedRun(
        size=size,
        shape=config.model.discriminator(config.corpus.target_vocab_size),
        num_steps=num_steps,
        num_pieces=num_pieces,
        start_seconds=start_seconds,
        update_seconds=seconds,
        tokens=num_steps * tokens,
        passes=num_steps * tokens / budget.text_tokens,
        flops=num_steps * mean_flops(config, sparse_embed_lookup=False),
        memory_bytes=needed,
        fits=needed <= budget.memory_bytes,
    )


def choose(candidates: Sequence[PlannedRun], budget: Budget) -> PlannedRun:
    """Chooses the largest training that fits and reads enough tokens."""
    fitting = [x for x in candidates if x.fits]
    if not fitting:
        least = min(x.memory_bytes for x in candidates)
        raise UserError(
            f"There must be {least / 1e9:.1f} GB of free memory. Received: "
            f"{budget.memory_bytes / 1e9:.1f} GB. Close other programs, or set "
            "a smaller --size."
        )
    enough = [x for x in fitting if x.is_enough]
    return enough[-1] if enough else fitting[0]


def check_length(candidate: PlannedRun) -> None:
    """Checks that a training has `MIN_STEPS` updates."""
    if candidate.num_steps < MIN_STEPS:
        hours = candidate._replace(num_steps=MIN_STEPS).seconds / 3600
        unit = 10.0 ** (math.floor(math.log10(hours)) - 1)  # two digits
        needed = math.ceil(hours / unit) * unit
        raise UserError(
            f"There must be time and text for {MIN_STEPS} updates of the size "
            f"{candidate.size.name}. Received: {candidate.num_steps}. Give "
            f"--hours={needed:.2g} or more, more text, or a smaller --size."
        )


def flags_of(candidate: PlannedRun, given: Flags) -> dict[str, Any]:
    """Returns the flags of a training: the size's, the given, the
    schedule's."""
    size, steps = candidate.size, candidate.num_steps
    warmup = max(round(_SHARE_OF_WARMUP * steps), min(_MIN_WARMUP, steps // 10))
    save_every = _steps_in(_SECONDS_BETWEEN_CHECKPOINTS, candidate)
    flags = {
        **settings(size, given),
        "num_train_steps": steps,
        "num_warmup_steps": min(warmup, _MAX_WARMUP),
        "iterations_per_loop": _steps_in(_SECONDS_BETWEEN_LOGS, candidate),
        "save_checkpoints_steps": save_every,
    }
    if candidate.num_pieces > 1:
        flags["gradient_accumulation_steps"] = candidate.num_pieces
    return flags


def rows_to_measure(config: PretrainingConfig, update_seconds: float) -> int:
    """Returns the number of rows of an update that is to be timed."""
    rows = config.phases[0].batch_size
    while rows > 1 and update_seconds > MAX_UPDATE_SECONDS:
        rows, update_seconds = rows // 2, update_seconds / 2
    return rows


def _nearest(
    config: PretrainingConfig, measured: Collection[TimedUpdate]
) -> TimedUpdate:
    """Returns the measured update that is nearest in FLOPs per token."""

    def log_flops_per_token(config: PretrainingConfig) -> float:
        return math.log(mean_flops(config) / mean_tokens(config))

    wanted = log_flops_per_token(config)
    return min(
        measured,
        key=lambda timed: abs(log_flops_per_token(timed.config) - wanted),
    )


def _steps_in(seconds: float, candidate: PlannedRun) -> int:
    """Returns the updates in a time, rounded to one digit; at least one."""
    steps = max(1, int(seconds / candidate.update_seconds))
    return round(steps, 1 - len(str(steps)))
