"""The rows of a split as tensors, and batches of them.

The rows of training form one endless stream: epoch after epoch, each row once
in each, permuted by (seed, epoch). Batch g is rows [g * B, (g + 1) * B) of the
stream, so that no row is dropped, and a run may start at any step. Its rows are
padded to one of a few lengths, chosen by the longest among them: most texts are
far shorter than the longest of all. Rows may also be grouped by length: the
stream is then sorted within windows of some batches, and the batches of each
window are shuffled, so that a row moves by less than a window.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.task import Row
from electra_tf.util import seeds

_MULTIPLE = 8  # in evaluation, rows are padded to a multiple of it
_BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # row lengths
_WINDOW = 50  # batches sorted together; at most a quarter of an epoch

Batch = dict[str, tf.Tensor]
Column = tf.Tensor | tf.RaggedTensor


class Features:
    """The rows of a split."""

    def __init__(
        self, rows: Iterable[Row], specs: Sequence[FeatureSpec]
    ) -> None:
        rows = list(rows)
        self.num_rows = len(rows)
        self._columns = {spec.name: _column(rows, spec) for spec in specs}
        self.lengths = np.array([len(row["input_ids"]) for row in rows])
        self.length = _round_up(int(self.lengths.max(initial=0)))

    def batch(self, indices: tf.Tensor, length: int) -> Batch:
        """Gathers rows into a batch, padded with zeros.

        Shapes: indices [B]; returns [B], [B, length].
        """
        batch = {}
        for name, column in self._columns.items():
            part = tf.gather(column, indices)
            if isinstance(part, tf.RaggedTensor):
                if name == "input_ids":
                    batch["input_mask"] = tf.sequence_mask(
                        part.row_lengths(), length, tf.int32
                    )
                part = part.to_tensor(shape=[None, length])
            batch[name] = part
        size = indices.shape[:1]  # static for the compiler, if known
        return {
            name: tf.ensure_shape(x, size + x.shape[1:])
            for name, x in batch.items()
        }

    def training_lengths(
        self,
        batch_size: int,
        num_steps: int,
        seed: int,
        *,
        min_batches: float,
        group_by_length: bool = False,
    ) -> np.ndarray:
        """Chooses the length to which each global batch is padded."""
        rows = self._order(num_steps, batch_size, seed, group_by_length)
        longest = self.lengths[rows].max(1)
        lengths = self._bucket_lengths(longest)
        for length, longer in itertools.pairwise(np.unique(lengths)):
            in_bucket = lengths == length
            if in_bucket.sum() < min_batches:
                lengths[in_bucket] = longer
        return lengths

    def training_dataset(
        self,
        *,
        steps: np.ndarray,
        length: int,
        batch_size: int,
        seed: int,
        group_by_length: bool = False,
        worker: int = 0,
        num_workers: int = 1,
        replicas_per_worker: int = 1,
    ) -> tf.data.Dataset:
        """Makes the training data of one worker."""
        num_steps = steps.max(initial=-1) + 1
        rows = self._order(num_steps, batch_size, seed, group_by_length)
        num_replicas = num_workers * replicas_per_worker
        size = batch_size // num_replicas
        order = rows.reshape(-1, num_replicas, size)[steps]
        first = worker * replicas_per_worker
        local = order[:, first : first + replicas_per_worker]
        dataset = tf.data.Dataset.from_tensor_slices(local.reshape(-1, size))
        return dataset.map(
            lambda indices: self.batch(indices, length),
            num_parallel_calls=tf.data.AUTOTUNE,
        ).prefetch(tf.data.AUTOTUNE)

    def batches(
        self,
        batch_size: int,
        *,
        multiple: int = 1,
        uses_buckets: bool = False,
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yields batches of all rows, rows of similar length together."""
        order = np.argsort(self.lengths, kind="stable")
        for start in range(0, self.num_rows, batch_size):
            indices = order[start : start + batch_size]
            longest = self.lengths[indices].max()
            length, size = _round_up(int(longest)), len(indices)
            if uses_buckets:
                length = int(self._bucket_lengths(longest))
                size = min(batch_size, self.num_rows)
            indices = np.resize(indices, _round_up(size, multiple))
            yield indices, self.batch(tf.constant(indices), length)

    def _bucket_lengths(self, lengths: np.ndarray) -> np.ndarray:
        """Rounds row lengths up to the few that are compiled."""
        choices = [n for n in _BUCKETS if n < self.length] + [self.length]
        return np.array(choices)[np.searchsorted(choices, lengths)]

    def _order(
        self, num_steps: int, batch_size: int, seed: int, group_by_length: bool
    ) -> np.ndarray:
        """Returns the row numbers of global batches, int32 [num_steps, B]."""
        window = 1
        if group_by_length:
            quarter = self.num_rows // (4 * batch_size)
            window = max(1, min(_WINDOW, quarter))
        num_windows = -(-num_steps // window)
        stream = self._stream(num_windows * window * batch_size, seed)
        batches = stream.reshape(num_windows, window, batch_size)
        if group_by_length:
            for number in range(num_windows):
                batches[number] = self._grouped(batches[number], seed, number)
        return batches.reshape(-1, batch_size)[:num_steps]

    def _grouped(self, rows: np.ndarray, seed: int, window: int) -> np.ndarray:
        """Sorts a window's rows [W, B] by length, and shuffles its batches."""
        order = np.argsort(self.lengths[rows.reshape(-1)], kind="stable")
        batches = rows.reshape(-1)[order].reshape(rows.shape)
        return batches[seeds.permutation(len(rows), seed, window, 1)]

    def _stream(self, size: int, seed: int) -> np.ndarray:
        """Returns the first row numbers of the stream, int32 [size]."""
        num_epochs = -(-size // self.num_rows)
        epochs = [
            seeds.permutation(self.num_rows, seed, epoch)
            for epoch in range(num_epochs)
        ]
        return np.concatenate([*epochs, []])[:size].astype(np.int32)


def _round_up(length: int, multiple: int = _MULTIPLE) -> int:
    return -(-length // multiple) * multiple


def _column(rows: Sequence[Mapping], spec: FeatureSpec) -> Column:
    kind = np.float32 if spec.is_float else np.int32
    values = [row[spec.name] for row in rows]
    if not spec.is_sequence:
        return tf.constant(np.array(values, kind))
    flat = np.concatenate(values).astype(kind)
    sizes = np.array([len(value) for value in values])
    return tf.RaggedTensor.from_row_lengths(flat, sizes)
