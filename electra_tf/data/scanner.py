"""Verification of TFRecord files by reading them."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf import message

from electra_tf.data.record_format import FEATURES, parse
from electra_tf.data.recovery import find_impossible_size
from electra_tf.util.errors import UserError, reason

_BATCH = 2048


class DamageError(UserError):
    """A file does not have the records that it should have."""


class Contents(NamedTuple):
    """A summary of the records of a file."""

    num_records: int
    max_seq_length: int
    max_values: list[int]


class Scanner:
    """Reads records and checks their values."""

    def __init__(
        self, max_seq_length: int, vocab_size: int, max_number: int
    ) -> None:
        self.max_seq_length = max_seq_length
        limits = (vocab_size, max_number + 1, 2)
        self._limits = dict(zip(FEATURES, limits, strict=True))

    def accepts(self, contents: Contents) -> bool:
        """Returns whether a file with these contents would pass the checks."""
        limits = self._limits.values()
        return contents.max_seq_length == self.max_seq_length and all(
            value < limit
            for value, limit in zip(contents.max_values, limits, strict=True)
        )

    def scan(self, path: str, *, max_records: int = -1) -> Contents:
        """Reads and checks the records of a file."""
        if (bad := find_impossible_size(path, max_records)) is not None:
            raise DamageError(
                _unreadable_record(
                    path, bad, "its size exceeds that of the file"
                )
            )
        dataset = tf.data.TFRecordDataset(path).take(max_records)
        num_records, max_values = 0, np.zeros(len(FEATURES), np.int64)
        try:
            for serialized in dataset.batch(_BATCH):
                found = self.check(path, serialized, num_records)
                max_values = np.maximum(max_values, found)
                num_records += len(serialized)
        except tf.errors.DataLossError as error:
            raise DamageError(locate_damage([path])) from error
        return Contents(num_records, self.max_seq_length, max_values.tolist())

    def check(
        self, path: str, serialized: tf.Tensor, first: int = 0
    ) -> list[int]:
        """Checks the values of records."""
        try:
            features = parse(serialized, self.max_seq_length)
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
            # TensorFlow's message quotes the record, which may not be text.
            for number, record in enumerate(serialized.numpy(), first):
                self._check_format(f"{path}: record {number}", record)
            raise
        max_values = []
        for name, limit in self._limits.items():
            values = features[name].numpy()
            # One pass checks both bounds: unsigned, negatives are the largest.
            max_values.append(int(values.view(np.uint64).max()))
            if max_values[-1] >= limit:
                row, column = np.argwhere((values < 0) | (values >= limit))[0]
                raise UserError(
                    f"{path}: record {first + row}: {name} must be at least "
                    f"0 and below {limit}. Received: {values[row, column]} at "
                    f"position {column}. Was it built with this vocabulary "
                    "and --packing?"
                )
        return max_values

    def _check_format(self, where: str, record: bytes) -> None:
        try:
            features = tf.train.Example.FromString(record).features.feature
        except message.DecodeError as error:
            raise UserError(
                f"{where} must be a tf.train.Example. Received: other data."
            ) from error
        for name in FEATURES:
            length = len(features[name].int64_list.value)
            if length != self.max_seq_length:
                raise UserError(
                    f"{where} must hold {self.max_seq_length} integers "
                    f"`{name}`, as max_seq_length says. Received: {length}. "
                    "Change --max_seq_length or build the data set again."
                )


def locate_damage(paths: Iterable[str]) -> str:
    """Finds the first damaged record; TensorFlow does not name it."""
    paths = list(paths)
    for path in paths:
        number = 0
        try:
            for _ in tf.data.TFRecordDataset(path):
                number += 1
        except tf.errors.OpError as error:
            return _unreadable_record(path, number, reason(error))
    return f"All records of {len(paths)} file(s) can be read."


def _unreadable_record(path: str, number: int, problem: str) -> str:
    return (
        f"{path}: record {number} cannot be read: {problem}. Restore the file, "
        "build the data set again, or set --skip_corrupt_records to skip "
        "damaged training records. Held-out records must be intact."
    )
