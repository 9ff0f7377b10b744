"""Ranges of updates whose batches are alike."""

from collections.abc import Sequence
from typing import NamedTuple


class Phase(NamedTuple):
    """Some updates of a training, one after the other.

    Attributes:
      first_step: updates before it.
      end_step: updates until its end.
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
        """Updates in it."""
        return self.end_step - self.first_step

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens in an update, padding included."""
        return self.batch_size * self.row_length


def phase_at(phases: Sequence[Phase], step: int) -> int:
    """Returns the number of the phase that the update after `step` is of.

    Args:
      phases: that follow each other from 0 on.
      step: updates done.
    """
    for number, phase in enumerate(phases):
        if step < phase.end_step:
            return number
    return len(phases) - 1


def borders(phases: Sequence[Phase]) -> frozenset[int]:
    """Returns the updates after which another phase begins."""
    return frozenset(phase.end_step for phase in phases[:-1])


def tokens_after(phases: Sequence[Phase], step: int) -> float:
    """Returns the tokens of all updates after `step`, padding included."""
    return sum(
        phase.tokens_per_step * (phase.end_step - max(step, phase.first_step))
        for phase in phases
        if phase.end_step > step
    )
