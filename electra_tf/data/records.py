"""TFRecord files that are verified before and while a run reads them.

A file that is removed, replaced or rewritten while a run reads it would end it
with an error that names no file, or change the result without any.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf
from google.protobuf import message

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.dataset_files import MANIFEST, read_manifest
from electra_tf.data.examples import MAX_EXAMPLES
from electra_tf.data.record_format import FEATURES, parse
from electra_tf.data.recovery import FaultTolerantReader, recover
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError, reason

MAX_BYTES_TO_SCAN = 2**30
_SCAN_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """One file of a data set.

    Attributes:
      path: where it lies.
      num_records: records in it, at least one.
      num_bytes: its size.
      max_seq_length: numbers in each feature.
      version: changes when the file does, see `storage.version`; None where
        that does not matter.
    """

    path: str
    num_records: int
    num_bytes: int
    max_seq_length: int
    version: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Records:
    """A set of TFRecord files that were verified.

    Attributes:
      files: the files, by name.
      recovery: reads them where damaged records are left out; None where they
        are an error.
    """

    files: tuple[RecordFile, ...]
    recovery: FaultTolerantReader | None = None

    @property
    def max_seq_length(self) -> int:
        """Numbers in each feature, in the longest records."""
        return max(file.max_seq_length for file in self.files)

    @property
    def buckets(self) -> tuple["Records", ...]:
        """The records of each length, shortest first."""
        lengths = {file.max_seq_length for file in self.files}
        return tuple(
            dataclasses.replace(
                self,
                files=tuple(
                    f for f in self.files if f.max_seq_length == length
                ),
            )
            for length in sorted(lengths)
        )

    @property
    def num_records(self) -> int:
        """Records in all files."""
        return sum(file.num_records for file in self.files)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of the files, which are those of data sets."""
        return tuple({os.path.dirname(file.path): None for file in self.files})

    @classmethod
    def open(
        cls,
        patterns: str,
        corpus: CorpusConfig,
        vocabulary: Vocabulary,
        *,
        skip_corrupt_records: bool = False,
    ) -> "Records":
        """Opens files and verifies them.

        A manifest beside the files must agree with the configuration, and the
        files with the manifest. Files are read in full if there is no
        manifest, or if they have at most `MAX_BYTES_TO_SCAN` together; else
        the first record of each is.

        Args:
          patterns: globs, separated by commas.
          corpus: the lengths of the records and the letter case to expect, of
            one data set.
          vocabulary: to which the ids must belong.
          skip_corrupt_records: whether damaged records are left out.

        Returns:
          The opened files.

        Raises:
          UserError: if anything is missing, damaged or does not fit, naming
            the file and, where there is one, the record, counted from 0.
        """
        paths = find(patterns)
        if not paths:
            raise UserError(
                "Pre-training records are needed. Received: "
                f"{patterns!r}, which matches no file. Build them with "
                "`python -m electra_tf.build_pretraining_dataset`."
            )
        recovery = FaultTolerantReader() if skip_corrupt_records else None
        is_small = sum(map(storage.size, paths)) <= MAX_BYTES_TO_SCAN
        max_number = MAX_EXAMPLES if corpus.is_packed else 1
        opened = []
        for directory, group in itertools.groupby(paths, os.path.dirname):
            listed = _list_files(
                directory, corpus, vocabulary, has_whole_files=not recovery
            )
            for path in group:
                file = _find_listed(path, listed)
                length = file.max_seq_length if file else corpus.max_seq_length
                scanner = _Scanner(length, vocabulary.size, max_number)
                opened.append(
                    _open_file(path, file, scanner, recovery, in_full=is_small)
                )
        return cls(tuple(opened), recovery)


def find(patterns: str) -> list[str]:
    """Returns the files that comma-separated globs match, sorted."""
    return sorted(
        {
            storage.normalize(path)
            for pattern in storage.split_patterns(patterns)
            for path in storage.glob(pattern)
        }
    )


def locate_damage(paths: Iterable[str]) -> str:
    """Finds the first damaged record; TensorFlow does not name it.

    Args:
      paths: the files that were being read.

    Returns:
      A sentence that names the first damaged record and its file, or says
      that all can be read.
    """
    paths = list(paths)
    for path in paths:
        number = 0
        try:
            for _ in tf.data.TFRecordDataset(path):
                number += 1
        except tf.errors.OpError as error:
            return (
                f"{path}: record {number} cannot be read: {reason(error)}. "
                "Restore the file, build the data set again, or train on "
                "without such records: --skip_corrupt_records."
            )
    return f"All records of {len(paths)} file(s) can be read."


def _list_files(
    directory: str,
    corpus: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    has_whole_files: bool,
) -> dict[str, RecordFile] | None:
    """Returns the files that a manifest lists, by path.

    None stands for files of the original, which have no manifest.
    """
    manifest = read_manifest(directory, corpus, vocabulary)
    if manifest is None:
        return None
    with files.shape_of(os.path.join(directory, MANIFEST)):
        listed = [
            RecordFile(
                os.path.join(directory, entry["name"]),
                int(entry["num_records"]),
                int(entry["num_bytes"]),
                int(entry.get("max_seq_length", corpus.max_seq_length)),
            )
            for entry in manifest["files"]
        ]
    for file in listed:
        if has_whole_files or not storage.exists(file.path):
            _check_size(file)
    return {file.path: file for file in listed}


def _check_size(file: RecordFile) -> None:
    size = storage.size(file.path) if storage.exists(file.path) else None
    if size != file.num_bytes:
        found = "no such file" if size is None else f"{size} bytes"
        raise UserError(
            f"{file.path} must have the {file.num_bytes} bytes that its "
            f"{MANIFEST} promises. Received: {found}. Restore the file or "
            "build the data set again."
        )


def _find_listed(
    path: str, listed: dict[str, RecordFile] | None
) -> RecordFile | None:
    """Returns the entry of a file in a manifest; None without a manifest."""
    if listed is not None and path not in listed:
        raise UserError(
            f"{path} must belong to the data set beside it. Received: a file "
            f"that its {MANIFEST} does not list. Move it elsewhere."
        )
    return listed and listed[path]


def _open_file(
    path: str,
    file: RecordFile | None,
    scanner: "_Scanner",
    recovery: FaultTolerantReader | None,
    *,
    in_full: bool,
) -> RecordFile:
    """Verifies a file, against its entry in a manifest if there is one."""
    size, *_ = version = tuple(storage.version(path))
    if not size:
        raise UserError(
            f"{path} must hold records. Received: 0 bytes. Restore the file "
            "or build the data set again."
        )
    is_scanned = in_full or file is None
    try:
        found = scanner.scan(path, max_records=-1 if is_scanned else 1)
        expected = file.num_records if file and is_scanned else found
        if found != expected:
            raise _DamageError(
                f"{path} must have the {expected} records that its {MANIFEST} "
                f"promises. Received: {found} records."
            )
    except _DamageError:
        if not recovery:
            raise
        found = file.num_records if file else len(recover(path))
        scanner.check(path, recovery.read(path, found))
    file = file or RecordFile(path, found, size, scanner.max_seq_length)
    # Damage that comes while a run reads is left out, too.
    return file if recovery else dataclasses.replace(file, version=version)


def check_unchanged(files: Iterable[RecordFile]) -> None:
    """Checks that files are as they were when they were opened.

    Args:
      files: to look at; one without a `version` must only be there.

    Raises:
      UserError: naming the first that is gone or has changed.
    """
    for file in files:
        try:
            size, *_ = version = tuple(storage.version(file.path))
        except FileNotFoundError:
            found = "no such file"
        else:
            if file.version in (None, version):
                continue
            found = f"{size} bytes, written meanwhile"
        raise UserError(
            f"{file.path} must stay as it is while a run reads it: "
            f"{file.num_records} records. Received: {found}. Put it back and "
            "give the same command to go on from the last checkpoint."
        )


@contextlib.contextmanager
def naming_faults(data_sets: Mapping[int, Records]) -> Iterator[None]:
    """Replaces errors of TensorFlow while records are read by their causes.

    Args:
      data_sets: that are read, by their `max_seq_length`.

    Raises:
      UserError: naming a file that is gone, has changed or is damaged.
    """
    files = [f for records in data_sets.values() for f in records.files]
    try:
        check_unchanged(files)
        yield
    except tf.errors.OpError as error:
        try:
            check_unchanged(files)
        except UserError as fault:
            raise fault from error
        if isinstance(error, tf.errors.DataLossError):
            raise UserError(locate_damage(f.path for f in files)) from error
        raise


class _DamageError(UserError):
    """A file does not have the records that it should have."""


class _Scanner:
    """Reads records and checks what they hold."""

    def __init__(
        self, max_seq_length: int, vocab_size: int, max_number: int
    ) -> None:
        self.max_seq_length = max_seq_length
        limits = (vocab_size, max_number + 1, 2)
        self._limits = dict(zip(FEATURES, limits, strict=True))

    def scan(self, path: str, *, max_records: int = -1) -> int:
        """Checks the records of a file and returns their number."""
        dataset = tf.data.TFRecordDataset(path).take(max_records)
        num_records = 0
        try:
            for serialized in dataset.batch(_SCAN_BATCH):
                self.check(path, serialized, num_records)
                num_records += len(serialized)
        except tf.errors.DataLossError as error:
            raise _DamageError(locate_damage([path])) from error
        return num_records

    def check(self, path: str, serialized: tf.Tensor, first: int = 0) -> None:
        """Checks the values of records, string [n]; `first` is their number."""
        try:
            features = parse(serialized, self.max_seq_length)
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
            # TensorFlow's message quotes the record, which may be no text.
            for number, record in enumerate(serialized.numpy(), first):
                self._check_format(f"{path}: record {number}", record)
            raise
        for name, limit in self._limits.items():
            values = features[name].numpy()
            bad = np.argwhere((values < 0) | (values >= limit))
            if bad.size:
                row, column = bad[0]
                raise UserError(
                    f"{path}: record {first + row}: {name} must be at least "
                    f"0 and below {limit}. Received: {values[row, column]} at "
                    f"position {column}. Was it built with this vocabulary "
                    "and --packing?"
                )

    def _check_format(self, where: str, record: bytes) -> None:
        try:
            features = tf.train.Example.FromString(record).features.feature
        except message.DecodeError as error:
            raise UserError(
                f"{where} must be a tf.train.Example. Received: other bytes."
            ) from error
        for name in FEATURES:
            length = len(features[name].int64_list.value)
            if length != self.max_seq_length:
                raise UserError(
                    f"{where} must hold {self.max_seq_length} integers "
                    f"`{name}`, as max_seq_length says. Received: {length}. "
                    "Change --max_seq_length or build the data set again."
                )
