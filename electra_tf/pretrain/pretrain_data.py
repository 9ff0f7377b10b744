"""Batches of packed text, in an order that is a function of (seed, step).

Records of one length form one endless stream: epoch after epoch, every record
once in each. Global batches are B rows of the stream each, one after the other,
and no row depends on the number of workers or replicas. So a run may start at
any row and be spread in any way, and nothing of the iterator has to be saved.
Which stream an update takes its batch from is a function of the configuration,
`BatchSchedule`.

Within an epoch the files are permuted and joined into groups of about
`shuffle_megabytes`; the records of a group are permuted in memory. One worker
reads groups in full. Of several, each reads its own records by byte ranges
(`data/record_shares`), but for files of a store, where every range would be a
request, and where damaged records are left out, since their substitutes depend
on the whole file.

A training has phases, and a phase takes its rows from the data set of its
length. Phases of the same length share a data set: the later one goes on where
the earlier one ended. Where a data set has records of several lengths, its
buckets, a global batch has rows of one of them. Each bucket is a stream of its
own: it gives every record once in each of its epochs, and since a batch may
hold the end of one epoch and the beginning of the next, no record is left over.
Buckets are interleaved by their shares of the records (`util/interleaving`), so
that their epochs end at about the same time.

An update has as many rows whatever their length. A token among short rows so
weighs more than it would in a batch of all lengths, where the mean is over
more tokens.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config import phases as phases_lib
from electra_tf.config.phases import Phase
from electra_tf.data.record_format import parse
from electra_tf.data.record_shares import ShareReader
from electra_tf.data.records import (
    RecordFile,
    Records,
    check_unchanged,
)
from electra_tf.util import seeds, storage
from electra_tf.util.interleaving import UNIT, interleave_schedule


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
        """Mask of the tokens that are no padding, bool [B, L]."""
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
    num_rows: int | None = None,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Makes the training data of one worker.

    Endless data ask Python for the order, and look at each file again once it
    is read, so they need the process that made them. For hosts without Python,
    as those of a TPU Pod, the order of so many rows is listed beforehand.

    Args:
      records: what to train on, of one length.
      batch_size: B, rows of a global batch; a multiple of the number of
        replicas of all workers.
      seed: of the order.
      first_row: rows of the stream to leave out; no group of which all are
        left out is read.
      shuffle_megabytes: size of the groups in which records are shuffled; at
        most twice as much is held in memory.
      num_rows: of all workers, to list, 8 bytes each; None for endless data.
      context: which worker this is, of how many, with how many replicas in
        all. Default: one worker with one replica.

    Returns:
      Dataset of `Inputs`, int32 [b, L], b = B / (workers * replicas per
      worker): one element for each replica in turn. Replica i of all gets
      rows [i * b, (i + 1) * b) of each global batch.
    """
    context = context or tf.distribute.InputContext()

    def groups() -> Iterator[_Group]:
        stream = _training_groups(records, seed, first_row, shuffle_megabytes)
        return _worker_share(
            stream if num_rows is None else _take_rows(stream, num_rows),
            batch_size=batch_size,
            worker_rows=batch_size // context.num_input_pipelines,
            worker=context.input_pipeline_id,
        )

    replica_batch = batch_size // context.num_replicas_in_sync
    if num_rows is None:
        loader = _Loader(records, by_share=context.num_input_pipelines > 1)
        signature = _Group(
            tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
        )
        listed = tf.data.Dataset.from_generator(
            groups, output_signature=signature
        )
        dataset = listed.map(loader.load)
    else:
        dataset = _listed(groups()).map(_load_group)
    # A group is loaded while the one before it is in use.
    dataset = dataset.prefetch(1)
    dataset = dataset.rebatch(replica_batch, drop_remainder=True)
    dataset = dataset.map(_parser(records), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def evaluation_dataset(records: Records, *, batch_size: int) -> tf.data.Dataset:
    """Makes the data of one evaluation.

    Args:
      records: what to evaluate on.
      batch_size: B.

    Returns:
      Dataset of `Inputs`, int32 [B, L], the last of fewer rows: each record
      once, in order.
    """
    dataset = tf.data.TFRecordDataset([file.path for file in records.files])
    dataset = dataset.batch(batch_size).map(_parser(records))
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


def _take_rows(groups: Iterator[_Group], num_rows: int) -> Iterator[_Group]:
    """Yields the first rows of a stream."""
    while num_rows > 0:
        paths, order = next(groups)
        yield _Group(paths, order[:num_rows])
        num_rows -= len(order)


def _listed(groups: Iterable[_Group]) -> tf.data.Dataset:
    """Returns a dataset of groups that holds all of them."""
    lists = list(zip(*groups, strict=True)) or ([], [])
    parts = (
        tf.RaggedTensor.from_row_lengths(
            tf.constant([*itertools.chain(*values)], dtype), [*map(len, values)]
        )
        for values, dtype in zip(lists, (tf.string, tf.int64), strict=True)
    )
    return tf.data.Dataset.from_tensor_slices(_Group(*parts))


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


class _Loader:
    """Loads the records of one group after the other, in a graph.

    Args:
      records: of which the groups are.
      by_share: whether groups leave out so many records that their files
        should not be read in full.
    """

    def __init__(self, records: Records, *, by_share: bool) -> None:
        self._files = {file.path: file for file in records.files}
        self._recovery = records.recovery
        self._shares = None
        is_local = not any(map(storage.is_remote, self._files))
        if by_share and is_local and not self._recovery:
            self._shares = ShareReader(records.files)

    def load(self, group: _Group) -> tf.Tensor:
        """Returns the records of a group in their order, string [n]."""
        paths, order = group
        if self._recovery:
            loaded = tf.py_function(self._read_sound, [paths], tf.string)
        else:
            if self._shares:
                paths, order = tf.py_function(
                    self._stage, [paths, order], [tf.string, tf.int64]
                )
            loaded = _read_files(paths)
        loaded = tf.py_function(
            self._finish, [group.paths, paths, loaded], tf.string
        )
        loaded.set_shape([None])
        order.set_shape([None])
        return tf.gather(loaded, order)

    def _read_sound(self, paths: tf.Tensor) -> tf.Tensor:
        files = self._named(paths)
        each = [self._recovery.read(x.path, x.num_records) for x in files]
        return tf.concat(each, axis=0)

    def _stage(
        self, paths: tf.Tensor, order: tf.Tensor
    ) -> tuple[list[str] | tf.Tensor, np.ndarray | tf.Tensor]:
        """Returns what to read instead of a group, and the records of it."""
        names = [file.path for file in self._named(paths)]
        staged = self._shares.stage(names, order.numpy())
        return ([staged[0]], staged[1]) if staged else (paths, order)

    def _finish(
        self, paths: tf.Tensor, read: tf.Tensor, loaded: tf.Tensor
    ) -> tf.Tensor:
        """Checks the files, after they were read so that no change is missed.

        Args:
          paths: of the group.
          read: paths of the files that were read in their place.
          loaded: the records.
        """
        check_unchanged(self._named(paths))
        for path in {*_texts(read)} - {*_texts(paths)}:
            self._shares.release(path)
        return loaded

    def _named(self, paths: tf.Tensor) -> list[RecordFile]:
        return [self._files[path] for path in _texts(paths)]


def _texts(strings: tf.Tensor) -> list[str]:
    return [text.decode() for text in strings.numpy()]


def _read_files(paths: tf.Tensor) -> tf.Tensor:
    """Returns the records of files, string [n]."""
    each = tf.data.TFRecordDataset(paths).batch(tf.int64.max)
    return each.get_single_element()


def _load_group(group: _Group) -> tf.Tensor:
    """Returns the records of a group, string [n]."""
    return tf.gather(_read_files(group.paths), group.order)


def _parser(records: Records) -> Callable[[tf.Tensor], Inputs]:
    def parse_inputs(serialized: tf.Tensor) -> Inputs:
        features = parse(serialized, records.max_seq_length)
        return Inputs(**{k: tf.cast(v, tf.int32) for k, v in features.items()})

    return parse_inputs


class Source(NamedTuple):
    """Source of batches of one shape.

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
                turns = self._interleaving(phase)[: step - phase.first_step]
                counts = np.bincount(turns, minlength=len(buckets))
                num_rows += counts * phase.batch_size
        return tuple(
            Source(bucket, now.batch_size, int(first_row))
            for bucket, first_row in zip(buckets, num_rows, strict=True)
        )

    def interleaving(self, step: int) -> np.ndarray:
        """Returns which source gives the batch of each update.

        Args:
          step: updates done.

        Returns:
          int32 [updates from there to the end of the phase], numbers of
          `sources(step)`.
        """
        phase = self._phase_at(step)
        return self._interleaving(phase)[step - phase.first_step :]

    def _interleaving(self, phase: Phase) -> np.ndarray:
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
