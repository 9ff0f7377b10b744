"""Batches of packed text, in an order that is a function of (seed, step).

Records of one length form one endless stream: epoch after epoch, every record
once in each. Global batches are consecutive groups of B rows of the stream, and
no row depends on the number of workers or replicas. So a run may start at any
row and be distributed in any way, and no state of the iterator has to be saved.

A phase takes its rows from the data set of its length; a later phase of the
same length continues where the earlier one ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import Phase, phase_at
from electra_tf.data import reading
from electra_tf.data.reading import Group, Records
from electra_tf.data.records import parse


class Inputs(NamedTuple):
    """A batch of packed text, all [B, L]."""

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


class BatchSchedule(NamedTuple):
    """The rows of each update, as a function of the step."""

    phases: Sequence[Phase]
    records: Mapping[int, Records]  # row length -> its data set
    seed: int

    def source(self, step: int) -> tuple[Records, int, int]:
        """Returns the records, the batch size and the first row at a step."""
        now = self.phases[phase_at(self.phases, step)]
        first_row = sum(
            phase.batch_size * (min(step, phase.end_step) - phase.first_step)
            for phase in self.phases
            if phase.max_seq_length == now.max_seq_length
            and phase.first_step < step
        )
        return self.records[now.max_seq_length], now.batch_size, first_row

    def open_at(self, step: int, strategy: tf.distribute.Strategy) -> Iterator:
        """Opens each replica's batches from a step to the end of its phase."""
        records, batch_size, first_row = self.source(step)

        def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return training_dataset(
                records,
                batch_size=batch_size,
                seed=self.seed,
                first_row=first_row,
                context=context,
            )

        return iter(strategy.distribute_datasets_from_function(make))
