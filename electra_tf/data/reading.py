"""Record files: opening them, and reading their rows in a shuffled order.

The order is a function of (seed, position): within an epoch the files are
permuted and joined into groups of about `shuffle_megabytes`, and the records of
a group are permuted in memory.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.records import MANIFEST, parse, read_manifest
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, seeds
from electra_tf.util.errors import UserError, reason

_BATCH = 1024
_OF_BERT = {"masked_lm_positions": tf.io.VarLenFeature(tf.int64)}

Group = tuple[list[str], np.ndarray]
"""Files that are read together, and the order of their records."""


@dataclasses.dataclass(frozen=True)
class RecordFile:
    path: str
    num_records: int
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class Records:
    """TFRecord files whose rows are of one length."""

    files: tuple[RecordFile, ...]
    max_seq_length: int

    @property
    def num_records(self) -> int:
        return sum(file.num_records for file in self.files)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of the files, one for each data set."""
        return tuple({os.path.dirname(file.path): None for file in self.files})

    @classmethod
    def open(
        cls, patterns: str, corpus: CorpusConfig, vocabulary: Vocabulary
    ) -> "Records":
        """Opens files; compares them with the manifest of their data set."""
        paths = files.find(patterns)
        if not paths:
            raise UserError(f"No records match {patterns!r}.")
        opened = []
        for directory, group in itertools.groupby(paths, os.path.dirname):
            manifest = read_manifest(directory, corpus, vocabulary)
            listed = _list_files(directory, manifest)
            for path in group:
                if not manifest:
                    file = _inspect(path, corpus.max_seq_length, vocabulary)
                elif path in listed:
                    file = listed[path]
                else:
                    raise UserError(f"{path} is not in the {MANIFEST} there.")
                opened.append(file)
        return cls(tuple(opened), corpus.max_seq_length)

    def groups(
        self, seed: int, first_row: int, shuffle_megabytes: float
    ) -> Iterator[Group]:
        """Yields files and the order of their records, from a row on."""
        first_epoch, num_skipped = divmod(first_row, self.num_records)
        for epoch in itertools.count(first_epoch):
            joined = self._join_files(seed, epoch, shuffle_megabytes)
            for number, group in enumerate(joined):
                num_records = sum(file.num_records for file in group)
                if num_skipped < num_records:
                    order = seeds.permutation(num_records, seed, epoch, number)
                    yield [file.path for file in group], order[num_skipped:]
                num_skipped = max(0, num_skipped - num_records)

    def _join_files(
        self, seed: int, epoch: int, megabytes: float
    ) -> list[list[RecordFile]]:
        """Permutes the files, and joins them to groups of about a size."""
        joined: list[list[RecordFile]] = []
        num_bytes = np.inf
        for i in seeds.permutation(len(self.files), seed, epoch):
            num_bytes += self.files[i].num_bytes
            if num_bytes > megabytes * 2**20:
                joined.append([])
                num_bytes = self.files[i].num_bytes
            joined[-1].append(self.files[i])
        return joined


def _list_files(
    directory: str, manifest: Mapping[str, Any]
) -> dict[str, RecordFile]:
    """Returns the files of a manifest by path; compares their sizes."""
    listed = {}
    for entry in manifest.get("files", ()):
        path = os.path.join(directory, os.path.basename(entry["name"]))
        file = RecordFile(path, entry["num_records"], entry["num_bytes"])
        listed[path] = file
        size = tf.io.gfile.stat(path).length
        if size != file.num_bytes:
            raise UserError(f"{path} has {size}, not {file.num_bytes} bytes.")
    return listed


def _inspect(path: str, length: int, vocabulary: Vocabulary) -> RecordFile:
    """Counts the records of a file without a manifest; checks the first."""
    num_records = largest = 0
    try:
        for batch in tf.data.TFRecordDataset(path).batch(_BATCH):
            if not num_records:
                found = tf.io.parse_single_example(batch[0], _OF_BERT)
                if masked := [k for k, v in found.items() if len(v.values)]:
                    raise UserError(f"{path} is masked: it has {masked}.")
                largest = int(tf.reduce_max(parse(batch, length)["input_ids"]))
            num_records += len(batch)
    except tf.errors.OpError as error:
        raise UserError(f"{path}: {reason(error)}") from error
    if not num_records or largest >= vocabulary.size:
        raise UserError(
            f"{path} has {num_records} records and the token {largest} of "
            f"{vocabulary.size}."
        )
    return RecordFile(path, num_records, tf.io.gfile.stat(path).length)


def load(groups: Callable[[], Iterator[Group]]) -> tf.data.Dataset:
    """Makes a dataset of the records of each group in order, string [n]."""
    signature = (
        tf.TensorSpec([None], tf.string),
        tf.TensorSpec([None], tf.int64),
    )

    def read(paths: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
        records = tf.data.TFRecordDataset(paths).batch(tf.int64.max)
        return tf.gather(records.get_single_element(), order)

    dataset = tf.data.Dataset.from_generator(groups, output_signature=signature)
    return dataset.map(read)


@contextlib.contextmanager
def naming_damaged_file(*records: Records) -> Iterator[None]:
    """Names the damaged file in an error of TensorFlow, which does not."""
    try:
        yield
    except tf.errors.DataLossError as error:
        for file in itertools.chain(*(each.files for each in records)):
            try:
                for _ in tf.data.TFRecordDataset(file.path).batch(_BATCH):
                    pass
            except tf.errors.DataLossError as damage:
                raise UserError(f"{file.path}: {reason(damage)}") from error
        raise
