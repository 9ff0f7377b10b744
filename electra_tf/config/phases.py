"""Phases of a training with rows of different lengths; needs no TensorFlow.

The flag `128:0.9,512:0.1` gives the row length and the share of the updates of
each phase; `128:0.9:256,512:0.1:64` also gives their batch sizes.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.util.errors import UserError


class Phase(NamedTuple):
    """Consecutive updates of a training with one row length and batch size.

    Attributes:
      first_step: number of updates before it.
      end_step: number of updates until its end.
      batch_size: rows in an update.
      max_seq_length: tokens in its longest rows, padding included.
      row_length: mean tokens in a row, padding included; less than
        `max_seq_length` where batches differ in length.
    """

    first_step: int
    end_step: int
    batch_size: int
    max_seq_length: int
    row_length: float

    @property
    def num_steps(self) -> int:
        """Number of its updates."""
        return self.end_step - self.first_step

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens in an update, padding included."""
        return self.batch_size * self.row_length


def phase_at(phases: Sequence[Phase], step: int) -> int:
    """Returns the index of the phase of the next update."""
    for number, phase in enumerate(phases):
        if step < phase.end_step:
            return number
    return len(phases) - 1


def borders(phases: Sequence[Phase]) -> frozenset[int]:
    """Returns the steps at which a new phase begins."""
    return frozenset(phase.end_step for phase in phases[:-1])


def tokens_after(phases: Sequence[Phase], step: int) -> float:
    """Returns the tokens of all updates after `step`, padding included."""
    return sum(
        phase.tokens_per_step * (phase.end_step - max(step, phase.first_step))
        for phase in phases
        if phase.end_step > step
    )


class Share(NamedTuple):
    """A phase as the configuration gives it.

    Attributes:
      max_seq_length: tokens in a row.
      share: of the updates.
      batch_size: rows in an update; 0 for the training's `train_batch_size`.
    """

    max_seq_length: int
    share: float
    batch_size: int = 0


def parse(text: str) -> tuple[Share, ...]:
    """Reads the phases of a training."""
    if not text.strip():
        return ()
    shares = tuple(_parse_one(word.strip(), text) for word in text.split(","))
    total = sum(phase.share for phase in shares)
    if not math.isclose(total, 1, abs_tol=1e-6):
        raise UserError(
            "The shares in `seq_length_phases` must add up to 1. Received: "
            f"{total:g}, seq_length_phases={text!r}."
        )
    return shares


def plan(
    text: str, *, num_train_steps: int, batch_size: int, max_seq_length: int
) -> tuple[Phase, ...]:
    """Divides the updates of a training among its phases."""
    shares = parse(text) or (Share(max_seq_length, 1.0),)
    sums = itertools.accumulate(phase.share for phase in shares)
    ends = [round(part * num_train_steps) for part in sums]
    ends[-1] = num_train_steps
    if any(a >= b for a, b in itertools.pairwise([0, *ends])):
        raise UserError(
            "Each phase must have an update. Received: num_train_steps="
            f"{num_train_steps}, seq_length_phases={text!r}, phases that end "
            f"at {', '.join(map(str, ends))}. Raise --num_train_steps."
        )
    starts = [0, *ends[:-1]]
    return tuple(
        Phase(
            first_step=start,
            end_step=end,
            batch_size=phase.batch_size or batch_size,
            max_seq_length=phase.max_seq_length,
            row_length=phase.max_seq_length,
        )
        for phase, start, end in zip(shares, starts, ends, strict=True)
    )


def _parse_one(word: str, text: str) -> Share:
    try:
        length, share, *rest = word.split(":")
        (batch_size,) = map(int, rest or ["0"])
        phase = Share(int(length), float(share), batch_size)
    except ValueError:
        phase = None
    if not (phase and 0 < phase.share <= 1 and batch_size >= bool(rest)):
        raise UserError(
            "A phase in `seq_length_phases` must be LENGTH:SHARE or "
            "LENGTH:SHARE:BATCH_SIZE, SHARE in (0, 1], as in 128:0.9,512:0.1. "
            f"Received: {word!r} in seq_length_phases={text!r}."
        )
    return phase
