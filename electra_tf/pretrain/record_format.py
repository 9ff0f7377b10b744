"""The files of a data set: their names, and the format of a record.

A record is a `tf.train.Example` with three int64 features of one fixed length,
as the original writes them: `input_ids`, `input_mask`, `segment_ids`.
"""

import contextlib
import glob
import os
from typing import Any

import tensorflow as tf

from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.example_builder import Example
from electra_tf.util import files

FEATURES = ("input_ids", "input_mask", "segment_ids")

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PARTS = ".parts"
TRAIN = "train"
HELD_OUT = "held_out"
PREFIXES = {TRAIN: "pretrain_data", HELD_OUT: "held_out_data"}


def serialize(
    example: Example, max_seq_length: int, vocabulary: Vocabulary
) -> bytes:
    """Makes a record: `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`.

    Args:
      example: of at most `max_seq_length` tokens with its special ones.
      max_seq_length: numbers in each feature; the rest is padding, zeros.
      vocabulary: for the ids of the special tokens.

    Returns:
      The serialized `tf.train.Example`.
    """
    ids = [vocabulary.cls_id, *example.first, vocabulary.sep_id]
    num_first = len(ids)
    if example.second:
        ids += [*example.second, vocabulary.sep_id]
    num_second = len(ids) - num_first
    padding = [0] * (max_seq_length - len(ids))
    record = tf.train.Example()
    features = record.features.feature  # filled in place: half the time
    features["input_ids"].int64_list.value.extend(ids + padding)
    features["input_mask"].int64_list.value.extend([1] * len(ids) + padding)
    features["segment_ids"].int64_list.value.extend(
        [0] * num_first + [1] * num_second + padding
    )
    return record.SerializeToString(deterministic=True)


def parse(serialized: tf.Tensor, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Parses a batch of records.

    Args:
      serialized: string [B].
      max_seq_length: L, the numbers in each feature.

    Returns:
      Feature -> int64 [B, L].
    """
    feature = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    return tf.io.parse_example(serialized, dict.fromkeys(FEATURES, feature))


class ShardWriter:
    """Writes records to several files in turn.

    Until `publish` the files have names that no glob for records matches.

    Args:
      directory: where the files go.
      split: "train" or "held_out".
      num_shards: how many files; fewer if there are fewer records.
    """

    def __init__(self, directory: str, split: str, num_shards: int) -> None:
        self.num_records = 0
        self._directory = directory
        self._split = split
        self._num_shards = num_shards
        self._writers: list[tf.io.TFRecordWriter] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, record: bytes) -> None:
        """Writes a record to the next file."""
        shard = self.num_records % self._num_shards
        if shard == len(self._writers):
            writer = tf.io.TFRecordWriter(self._unfinished_path(shard))
            self._writers.append(self._stack.enter_context(writer))
        self._writers[shard].write(record)
        self.num_records += 1

    def close(self) -> None:
        """Writes what is still in memory; errors show here at the latest."""
        self._stack.close()

    def publish(self) -> list[dict[str, Any]]:
        """Gives the files their names; returns the manifest's entries."""
        num_shards = len(self._writers)
        entries = []
        for shard in range(num_shards):
            name = f"{PREFIXES[self._split]}.tfrecord-{shard}-of-{num_shards}"
            path = os.path.join(self._directory, name)
            files.sync(self._unfinished_path(shard))
            os.replace(self._unfinished_path(shard), path)
            entries.append(
                {
                    "name": name,
                    "split": self._split,
                    "num_records": len(
                        range(shard, self.num_records, num_shards)
                    ),
                    "num_bytes": os.path.getsize(path),
                }
            )
        return entries

    def _unfinished_path(self, shard: int) -> str:
        return os.path.join(
            self._directory, f".{PREFIXES[self._split]}.tfrecord-{shard}.tmp"
        )


def find_unfinished(directory: str) -> list[str]:
    """Returns the shards and parts that a stopped build left in a directory."""
    return _glob(directory, [".*.tfrecord-*.tmp", os.path.join(PARTS, "*")])


def find_data_set(directory: str) -> list[str]:
    """Returns the files of a data set in a directory, its manifest first."""
    return _glob(
        directory, [MANIFEST, *(f"{p}.tfrecord*" for p in PREFIXES.values())]
    )


def _glob(directory: str, names: list[str]) -> list[str]:
    return [
        path
        for name in names
        for path in glob.glob(os.path.join(glob.escape(directory), name))
    ]
