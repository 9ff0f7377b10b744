"""Which records each update takes: a function of the configuration.

A training has phases, and a phase takes its rows from the data set of its
length. Phases of the same length share a data set: the later one goes on where
the earlier one ended.

Where a data set has records of several lengths, its buckets, a global batch has
rows of one of them. Each bucket is a stream of its own, see `pretrain_data`: it
gives every record once in each of its epochs, and since a batch may hold the
end of one epoch and the beginning of the next, no record is left over. The
buckets take turns by their shares of the records, so that their epochs end at
about the same time: see `turns.py`.

An update has as many rows whatever their length. A token among short rows so
weighs more than it would in a batch of all lengths, where the mean is over
more tokens.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from electra_tf.config import phases as phases_lib
from electra_tf.config.phases import Phase
from electra_tf.data.records import Records
from electra_tf.util.interleaving import UNIT, interleave_schedule


class Source(NamedTuple):
    """Where batches of one shape come from.

    Attributes:
      records: of one length.
      batch_size: rows of a global batch.
      first_row: rows of the records' stream that were taken before.
    """

    records: Records
    batch_size: int
    first_row: int


@dataclasses.dataclass(frozen=True)
class BatchSchedule:
    """The batches of a training.

    Attributes:
      phases: of the training; `row_length` is set here.
      records: to train on, by their `max_seq_length`.
      seed: of the order.
    """

    phases: tuple[Phase, ...]
    records: Mapping[int, Records]
    seed: int

    def __post_init__(self) -> None:
        phases = tuple(
            phase._replace(row_length=_mean_length(self._buckets(phase)))
            for phase in self.phases
        )
        object.__setattr__(self, "phases", phases)

    def sources(self, step: int) -> tuple[Source, ...]:
        """Returns where the batches of the phase at a step come from.

        Args:
          step: updates done; what they took is left out.

        Returns:
          One source for each length, shortest first.
        """
        now = self._phase_at(step)
        buckets = self._buckets(now)
        num_rows = np.zeros(len(buckets), np.int64)
        for phase in self.phases:
            same = phase.max_seq_length == now.max_seq_length
            if same and phase.first_step < step:
                turns = self._turns(phase)[: step - phase.first_step]
                counts = np.bincount(turns, minlength=len(buckets))
                num_rows += counts * phase.batch_size
        return tuple(
            Source(bucket, now.batch_size, int(first_row))
            for bucket, first_row in zip(buckets, num_rows, strict=True)
        )

    def turns(self, step: int) -> np.ndarray:
        """Returns which source gives the batch of each update.

        Args:
          step: updates done.

        Returns:
          int32 [updates from there to the end of the phase], numbers of
          `sources(step)`.
        """
        phase = self._phase_at(step)
        return self._turns(phase)[step - phase.first_step :]

    def _turns(self, phase: Phase) -> np.ndarray:
        """Returns the source of each update of a phase."""
        sizes = [bucket.num_records for bucket in self._buckets(phase)]
        ends = [n * UNIT // sum(sizes) for n in itertools.accumulate(sizes)]
        return interleave_schedule(np.array(ends), phase.num_steps, self.seed)

    def _phase_at(self, step: int) -> Phase:
        return self.phases[phases_lib.phase_at(self.phases, step)]

    def _buckets(self, phase: Phase) -> tuple[Records, ...]:
        return self.records[phase.max_seq_length].buckets


def _mean_length(buckets: tuple[Records, ...]) -> float:
    """Returns the mean length of records, padding included."""
    num_records = sum(bucket.num_records for bucket in buckets)
    num_tokens = sum(
        bucket.num_records * bucket.max_seq_length for bucket in buckets
    )
    return num_tokens / num_records
