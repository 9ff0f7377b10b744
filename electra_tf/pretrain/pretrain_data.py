"""Batches of packed text, in an order that is a function of (seed, step).

Records of one length form one endless stream: epoch after epoch, every record
once in each. Global batches are consecutive groups of B rows of the stream, and
no row depends on the number of workers or replicas. So a run may start at any
row and be distributed in any way, and no state of the iterator has to be saved.

A phase takes its rows from the data set of its length; a later phase of the
same length continues where the earlier one ended. If a data set has records of
several lengths, its buckets, each bucket is a stream of its own, and a batch
has rows of one of them: buckets are interleaved by their shares of the records.
All updates have the same number of rows, whatever their length. The loss is a
mean over the tokens of a batch, so a token weighs more in a batch of short
rows.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import Phase, phase_at
from electra_tf.data import reading
from electra_tf.data.reading import Group, Records
from electra_tf.data.records import parse
from electra_tf.training.training_utils import Batches, InterleavedBatches

_UNIT = 2**32  # stands for a share of 1
_GOLDEN = 2_654_435_769  # 0.618... of it


class Inputs(NamedTuple):
    """A batch of packed text.

    Shapes: input_ids [B, L], input_mask [B, L], segment_ids [B, L].
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor

    @property
    def is_real(self) -> tf.Tensor:
        """Mask of the tokens that are not padding, bool [B, L]."""
        return self.input_mask > 0


def training_dataset(
    records: Records,
    *,
    batch_size: int,
    seed: int,
    first_row: int = 0,
    shuffle_megabytes: float = 128,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Makes the training data of one worker."""
    context = context or tf.distribute.InputContext()
    worker_rows = batch_size // context.num_input_pipelines

    def groups() -> Iterator[Group]:
        """Yields the rows of each group that belong to this worker."""
        row = 0
        for paths, order in records.groups(seed, first_row, shuffle_megabytes):
            positions = np.arange(row, row + len(order)) % batch_size
            row += len(order)
            is_own = positions // worker_rows == context.input_pipeline_id
            if is_own.any():
                yield paths, order[is_own]

    dataset = reading.load(groups)
    # A group is loaded while the one before it is in use.
    dataset = dataset.prefetch(1)
    dataset = dataset.rebatch(
        batch_size // context.num_replicas_in_sync, drop_remainder=True
    )
    dataset = _parse_batches(dataset, records)
    # Else several workers would ask each other before a batch if there is one.
    infinite = tf.data.experimental.assert_cardinality(
        tf.data.INFINITE_CARDINALITY
    )
    return dataset.apply(infinite).prefetch(tf.data.AUTOTUNE)


def evaluation_dataset(records: Records, *, batch_size: int) -> tf.data.Dataset:
    """Makes the data of one evaluation."""
    dataset = tf.data.TFRecordDataset([file.path for file in records.files])
    dataset = _parse_batches(dataset.batch(batch_size), records)
    return dataset.prefetch(tf.data.AUTOTUNE)


def _parse_batches(
    dataset: tf.data.Dataset, records: Records
) -> tf.data.Dataset:
    def parse_batch(serialized: tf.Tensor) -> Inputs:
        features = parse(serialized, records.max_seq_length)
        return Inputs(**{k: tf.cast(v, tf.int32) for k, v in features.items()})

    return dataset.map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)


class BatchSource(NamedTuple):
    """Source of batches of one shape."""

    records: Records
    batch_size: int
    first_row: int


class BatchSchedule:
    """The source of each update's batch, as a function of the step."""

    def __init__(
        self, phases: Sequence[Phase], records: Mapping[int, Records], seed: int
    ) -> None:
        self.records = records
        self.seed = seed
        self.phases = tuple(
            phase._replace(row_length=self._mean_length(phase))
            for phase in phases
        )

    def sources(self, step: int) -> tuple[BatchSource, ...]:
        """Returns the sources of the batches of the phase at a step."""
        now = self._phase_at(step)
        buckets = self._buckets(now)
        num_rows = np.zeros(len(buckets), np.int64)
        for phase in self.phases:
            same = phase.max_seq_length == now.max_seq_length
            if same and phase.first_step < step:
                done = self._interleaving(phase)[: step - phase.first_step]
                counts = np.bincount(done, minlength=len(buckets))
                num_rows += counts * phase.batch_size
        return tuple(
            BatchSource(bucket, now.batch_size, int(first_row))
            for bucket, first_row in zip(buckets, num_rows, strict=True)
        )

    def interleaving(self, step: int) -> np.ndarray:
        """Returns which source gives the batch of each update of the phase."""
        phase = self._phase_at(step)
        return self._interleaving(phase)[step - phase.first_step :]

    def open_at(self, step: int, strategy: tf.distribute.Strategy) -> Batches:
        """Opens each replica's batches from a step to the end of its phase."""
        sources = self.sources(step)

        def iterator(source: BatchSource) -> Iterator:
            def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
                return training_dataset(
                    **source._asdict(),
                    seed=self.seed,
                    # The groups of all sources are in memory at once.
                    shuffle_megabytes=128 / len(sources),
                    context=context,
                )

            return iter(strategy.distribute_datasets_from_function(make))

        iterators = tuple(map(iterator, sources))
        if len(iterators) == 1:
            return iterators[0]
        return InterleavedBatches(iterators, iter(self.interleaving(step)))

    def _interleaving(self, phase: Phase) -> np.ndarray:
        """Returns the source of each update of a phase."""
        sizes = [bucket.num_records for bucket in self._buckets(phase)]
        return interleave(sizes, phase.num_steps, self.seed)

    def _phase_at(self, step: int) -> Phase:
        return self.phases[phase_at(self.phases, step)]

    def _mean_length(self, phase: Phase) -> float:
        """Returns the mean length of records, padding included."""
        buckets = self._buckets(phase)
        lengths = [bucket.max_seq_length for bucket in buckets]
        counts = [bucket.num_records for bucket in buckets]
        return float(np.average(lengths, weights=counts))

    def _buckets(self, phase: Phase) -> tuple[Records, ...]:
        return self.records[phase.max_seq_length].buckets


def interleave(sizes: Sequence[int], num_updates: int, seed: int) -> np.ndarray:
    """Returns the source of each update, by the sources' shares of [0, 1).

    Update g takes the source into whose interval (offset + g * 0.618...) mod 1
    falls, with the golden ratio, which spreads the sources most evenly, and an
    offset made from the seed.
    """
    if len(sizes) == 1:
        return np.broadcast_to(np.int32(0), num_updates)  # takes no memory
    ends = [n * _UNIT // sum(sizes) for n in itertools.accumulate(sizes)]
    offset = int(np.random.SeedSequence(seed).generate_state(1)[0])
    numbers = (offset + np.arange(num_updates) * _GOLDEN) % _UNIT
    is_past = numbers[:, np.newaxis] >= np.array(ends[:-1])
    return is_past.sum(-1, dtype=np.int32)
