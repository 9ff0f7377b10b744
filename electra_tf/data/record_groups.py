"""Groups of record files, and the loading of their records in some order.

A group is loaded in full, or each of several workers loads only its own
records, by byte ranges (`record_shares`).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.data.record_shares import ShareReader
from electra_tf.data.records import RecordFile, Records, check_unchanged
from electra_tf.util import storage


class Group(NamedTuple):
    """Records that are loaded together."""

    paths: list[str]
    order: np.ndarray


def load(
    groups: Callable[[], Iterator[Group]], records: Records, *, by_share: bool
) -> tf.data.Dataset:
    """Makes a dataset of the records of groups that come from Python."""
    signature = Group(
        tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
    )
    dataset = tf.data.Dataset.from_generator(groups, output_signature=signature)
    return dataset.map(_Loader(records, by_share=by_share).load)


class _Loader:
    """Loads the records of a group, in a graph; see `load`."""

    def __init__(self, records: Records, *, by_share: bool) -> None:
        self._files = {file.path: file for file in records.files}
        self._recovery = records.recovery
        self._shares = None
        is_local = not any(map(storage.is_remote, self._files))
        if by_share and is_local:
            self._shares = ShareReader(records.files)

    def load(self, group: Group) -> tf.Tensor:
        """Returns the records of a group in their order, string [n]."""
        paths, order = group
        if self._recovery:
            loaded = tf.py_function(self._read_intact, [paths], tf.string)
        else:
            if self._shares:
                paths, order = tf.py_function(
                    self._stage, [paths, order], [tf.string, tf.int64]
                )
            every = tf.data.TFRecordDataset(paths).batch(tf.int64.max)
            loaded = every.get_single_element()
        loaded = tf.py_function(
            self._check_and_release, [group.paths, paths, loaded], tf.string
        )
        loaded.set_shape([None])
        order.set_shape([None])
        return tf.gather(loaded, order)

    def _read_intact(self, paths: tf.Tensor) -> tf.Tensor:
        files = self._files_at(paths)
        each = [self._recovery.read(x.path, x.num_records) for x in files]
        return tf.concat(each, axis=0)

    def _stage(
        self, paths: tf.Tensor, order: tf.Tensor
    ) -> tuple[list[str] | tf.Tensor, np.ndarray | tf.Tensor]:
        """Returns the paths to read instead, and the order of records there."""
        names = [file.path for file in self._files_at(paths)]
        staged = self._shares.stage(names, order.numpy())
        return ([staged[0]], staged[1]) if staged else (paths, order)

    def _check_and_release(
        self, paths: tf.Tensor, read: tf.Tensor, loaded: tf.Tensor
    ) -> tf.Tensor:
        """Checks the files after they were read, so that no change is
        missed."""
        check_unchanged(self._files_at(paths))
        for path in {*_decoded(read)} - {*_decoded(paths)}:
            storage.remove(path)  # frees its memory
        return loaded

    def _files_at(self, paths: tf.Tensor) -> list[RecordFile]:
        return [self._files[path] for path in _decoded(paths)]


def _decoded(strings: tf.Tensor) -> list[str]:
    return [text.decode() for text in strings.numpy()]
