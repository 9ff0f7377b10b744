"""Batches of packed text, in an order that is a function of (seed, step).

Records of one length form one endless stream: epoch after epoch, every record
once in each. Global batches are B rows of the stream each, one after the other,
and no row depends on the number of workers or replicas. So a run may start at
any row and be spread in any way, and nothing of the iterator has to be saved.
Which stream an update takes its batch from is told by `batch_schedule`.

Within an epoch the files are permuted and joined into groups of about
`shuffle_megabytes`; the records of a group are permuted in memory. So a worker
reads every group that holds rows of its own in full, and parses these alone.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.data.record_format import parse
from electra_tf.data.records import (
    RecordFile,
    Records,
    check_unchanged,
    locate_damage,
)
from electra_tf.util import seeds

__all__ = [
    "Inputs",
    "Records",
    "evaluation_dataset",
    "locate_damage",
    "training_dataset",
]


class Inputs(NamedTuple):
    """A batch of packed text.

    Attributes:
      input_ids: int32 [B, L]; 0 past the end.
      input_mask: int32 [B, L]; the number of the token's document in its row,
        from 1, and 0 past the end. It is always 1 on tokens unless rows are
        packed: compare it with 0, or use `is_real`.
      segment_ids: int32 [B, L]; 1 on the second segment, else 0.
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor

    @property
    def is_real(self) -> tf.Tensor:
        """Where there are tokens and no padding, bool [B, L]."""
        return self.input_mask > 0


class _Group(NamedTuple):
    """Records that are loaded together.

    Attributes:
      paths: their files.
      order: int64 [n], the records to use, in order, as indices into the
        concatenation of the files.
    """

    paths: list[str]
    order: np.ndarray


def training_dataset(
    records: Records,
    *,
    batch_size: int,
    seed: int,
    first_row: int = 0,
    shuffle_megabytes: float = 128,
    worker: int = 0,
    num_workers: int = 1,
    replicas_per_worker: int = 1,
) -> tf.data.Dataset:
    """Makes the endless training data of one worker.

    Args:
      records: what to train on, of one length.
      batch_size: B, rows of a global batch; a multiple of the number of
        replicas of all workers.
      seed: of the order.
      first_row: rows of the stream to leave out; no group of which all are
        left out is read.
      shuffle_megabytes: size of the groups in which records are shuffled; at
        most twice as much is held in memory.
      worker: number of this worker.
      num_workers: workers that share a global batch.
      replicas_per_worker: replicas that share a worker's rows.

    Returns:
      Dataset of `Inputs`, int32 [b, L], b = B / (workers * replicas per
      worker): one element for each replica in turn. Replica i of all gets
      rows [i * b, (i + 1) * b) of each global batch.
    """
    replica_batch = batch_size // (num_workers * replicas_per_worker)

    def groups() -> Iterator[_Group]:
        return _worker_share(
            _training_groups(records, seed, first_row, shuffle_megabytes),
            batch_size=batch_size,
            worker_rows=batch_size // num_workers,
            worker=worker,
        )

    dataset = _load(groups, records).rebatch(replica_batch, drop_remainder=True)
    dataset = dataset.map(_parser(records), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def evaluation_dataset(records: Records, *, batch_size: int) -> tf.data.Dataset:
    """Makes the data of one evaluation.

    Args:
      records: what to evaluate on.
      batch_size: B.

    Returns:
      Dataset of `Inputs`, int32 [B, L]: each record once, in order; the last
      batch is filled up with rows of zeros.
    """
    num_blank = -records.num_records % batch_size
    blank = tf.zeros([num_blank, records.max_seq_length], tf.int32)
    dataset = tf.data.TFRecordDataset([file.path for file in records.files])
    dataset = dataset.batch(batch_size).map(_parser(records))
    if num_blank:
        blanks = tf.data.Dataset.from_tensors(Inputs(blank, blank, blank))
        dataset = dataset.concatenate(blanks)
    dataset = dataset.rebatch(batch_size, drop_remainder=True)
    return dataset.prefetch(tf.data.AUTOTUNE)


def _training_groups(
    records: Records, seed: int, first_row: int, shuffle_megabytes: float
) -> Iterator[_Group]:
    """Yields the groups of the stream for ever, from a row on."""
    first_epoch, num_skipped = divmod(first_row, records.num_records)
    for epoch in itertools.count(first_epoch):
        order = seeds.permutation(len(records.files), seed, epoch)
        shuffled = [records.files[i] for i in order]
        for number, joined in enumerate(_join(shuffled, shuffle_megabytes)):
            num_records = sum(file.num_records for file in joined)
            if num_skipped >= num_records:
                num_skipped -= num_records
                continue
            order = seeds.permutation(num_records, seed, epoch, number)
            yield _Group([file.path for file in joined], order[num_skipped:])
            num_skipped = 0


def _join(
    files: list[RecordFile], shuffle_megabytes: float
) -> Iterator[list[RecordFile]]:
    """Cuts a sequence of files into groups of about the same size."""
    joined: list[RecordFile] = []
    num_bytes = 0
    for file in files:
        if joined and num_bytes + file.num_bytes > shuffle_megabytes * 2**20:
            yield joined
            joined, num_bytes = [], 0
        joined.append(file)
        num_bytes += file.num_bytes
    yield joined


def _worker_share(
    groups: Iterator[_Group],
    *,
    batch_size: int,
    worker_rows: int,
    worker: int,
) -> Iterator[_Group]:
    """Leaves of each group the rows that belong to a worker.

    A group without any is left out, and never read.
    """
    row = 0
    for group in groups:
        positions = np.arange(row, row + len(group.order)) % batch_size
        row += len(group.order)
        order = group.order[positions // worker_rows == worker]
        if order.size:
            yield _Group(group.paths, order)


def _load(
    groups: Callable[[], Iterator[_Group]], records: Records
) -> tf.data.Dataset:
    """Returns a dataset of the records of each group, string [n].

    One group is loaded while the one before it is in use.
    """
    files = {file.path: file for file in records.files}
    signature = _Group(
        tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
    )

    def named(paths: tf.Tensor) -> list[RecordFile]:
        return [files[path.decode()] for path in paths.numpy()]

    def read_sound(paths: tf.Tensor) -> tf.Tensor:
        return tf.concat(
            [
                records.recovery.read(x.path, x.num_records)
                for x in named(paths)
            ],
            axis=0,
        )

    def unchanged(paths: tf.Tensor, loaded: tf.Tensor) -> tf.Tensor:
        check_unchanged(named(paths))
        return loaded

    def load(group: _Group) -> tf.Tensor:
        if records.recovery:
            loaded = tf.py_function(read_sound, [group.paths], tf.string)
        else:
            each = tf.data.TFRecordDataset(group.paths).batch(tf.int64.max)
            loaded = each.get_single_element()
        # After they were read, so that no change comes between.
        loaded = tf.py_function(unchanged, [group.paths, loaded], tf.string)
        loaded.set_shape([None])
        return tf.gather(loaded, group.order)

    dataset = tf.data.Dataset.from_generator(groups, output_signature=signature)
    return dataset.map(load).prefetch(1)


def _parser(records: Records) -> Callable[[tf.Tensor], Inputs]:
    def parse_inputs(serialized: tf.Tensor) -> Inputs:
        features = parse(serialized, records.max_seq_length)
        return Inputs(**{k: tf.cast(v, tf.int32) for k, v in features.items()})

    return parse_inputs
