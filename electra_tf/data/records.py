"""TFRecord files that are verified before and while a run reads them.

Without this, a file that is removed, replaced or rewritten during a run would
end the run with an error that names no file, or silently change its result.
"""

import collections
import contextlib
import dataclasses
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import verification_cache
from electra_tf.data.build_log import Log
from electra_tf.data.dataset_files import MANIFEST, read_manifest
from electra_tf.data.packing_rules import MAX_EXAMPLES
from electra_tf.data.recovery import FRAME_BYTES, FaultTolerantReader, recover
from electra_tf.data.scanner import DamageError, Scanner, locate_damage
from electra_tf.data.verification_cache import CacheEntry
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files, machine, storage
from electra_tf.util.errors import UserError

MAX_BYTES_TO_SCAN = 2**30
BYTES_TO_ANNOUNCE = 2**27  # of records: about a second of verifying
_MAX_THREADS = 4


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """One file of a data set."""

    path: str
    num_records: int
    num_bytes: int
    max_seq_length: int
    version: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Records:
    """A set of TFRecord files that were verified."""

    files: tuple[RecordFile, ...]
    recovery: FaultTolerantReader | None = None

    @property
    def max_seq_length(self) -> int:
        """Numbers in each feature, in the longest records."""
        return max(file.max_seq_length for file in self.files)

    @property
    def buckets(self) -> tuple["Records", ...]:
        """The records of each length, shortest first."""
        by_length = collections.defaultdict(list)
        for file in self.files:
            by_length[file.max_seq_length].append(file)
        return tuple(
            dataclasses.replace(self, files=tuple(by_length[length]))
            for length in sorted(by_length)
        )

    @property
    def num_records(self) -> int:
        """Records in all files."""
        return sum(file.num_records for file in self.files)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of the files, one for each data set."""
        return tuple({os.path.dirname(file.path): None for file in self.files})

    @classmethod
    def open(
        cls,
        patterns: str,
        corpus: CorpusConfig,
        vocabulary: Vocabulary,
        *,
        skip_corrupt_records: bool = False,
        verify_records: bool = False,
        log: Log = console.say,
    ) -> "Records":
        """Opens files and verifies them."""
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
        candidates = []
        for directory, group in itertools.groupby(paths, os.path.dirname):
            listed = _list_files(
                directory, corpus, vocabulary, has_whole_files=not recovery
            )
            known = {} if verify_records else verification_cache.read(directory)
            for path in group:
                file = _find_listed(path, listed)
                length = file.max_seq_length if file else corpus.max_seq_length
                scanner = Scanner(length, vocabulary.size, max_number)
                identity = storage.identity(path)
                cached = _if_valid(known.get(path), identity, scanner)
                in_full = is_small or verify_records or not file
                is_read = in_full and not cached
                candidates.append(
                    _Unopened(path, identity, file, scanner, cached, is_read)
                )
        return cls(_open_files(candidates, recovery, log), recovery)


def find(patterns: str) -> list[str]:
    """Returns the files that comma-separated globs match, sorted."""
    return sorted(
        {
            storage.normalize(path)
            for pattern in storage.split_patterns(patterns)
            for path in storage.glob(pattern)
            if verification_cache.CACHE_FILE not in os.path.basename(path)
        }
    )


def _list_files(
    directory: str,
    corpus: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    has_whole_files: bool,
) -> dict[str, RecordFile] | None:
    """Returns the files that a manifest lists, by path."""
    manifest = read_manifest(directory, corpus, vocabulary)
    if manifest is None:
        return None
    with files.naming_malformed_file(os.path.join(directory, MANIFEST)):
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
        _check_entry(file, directory, corpus)
        if has_whole_files or not storage.exists(file.path):
            _check_size(file)
    return {file.path: file for file in listed}


def _check_entry(
    file: RecordFile, directory: str, corpus: CorpusConfig
) -> None:
    """Refuses impossible numbers, before memory is allocated for them."""
    is_here = os.path.dirname(file.path) == directory
    is_full = 1 <= file.num_records <= file.num_bytes // FRAME_BYTES
    if not (is_here and is_full and file.max_seq_length in corpus.row_lengths):
        raise UserError(
            f"{os.path.join(directory, MANIFEST)} must list files in its "
            "directory, with at least one record and rows of "
            f"{corpus.row_lengths} tokens. "
            f"Received: {file.path}, {file.num_records} records in "
            f"{file.num_bytes} bytes, rows of {file.max_seq_length}. Restore "
            "it or build the data set again."
        )


def _check_size(file: RecordFile) -> None:
    size = storage.size(file.path) if storage.exists(file.path) else None
    if size != file.num_bytes:
        found = "no such file" if size is None else f"{size} bytes"
        raise UserError(
            f"{file.path} must have the {file.num_bytes} bytes that its "
            f"{MANIFEST} states. Received: {found}. Restore the file or build "
            "the data set again."
        )


def _find_listed(
    path: str, listed: dict[str, RecordFile] | None
) -> RecordFile | None:
    """Returns the entry of a file in a manifest; None without a manifest."""
    if listed is not None and path not in listed:
        raise UserError(
            f"{path} must belong to the data set in its directory. Received: a "
            f"file that {MANIFEST} does not list. Move it elsewhere."
        )
    return listed and listed[path]


class _Unopened(NamedTuple):
    """A file that is to be opened."""

    path: str
    identity: list[int]
    listed: RecordFile | None
    scanner: Scanner
    cached: CacheEntry | None
    is_read: bool


def _if_valid(
    cached: CacheEntry | None, identity: list[int], scanner: Scanner
) -> CacheEntry | None:
    """Returns an entry if it is of this very file and its contents fit."""
    is_of_file = cached is not None and cached.identity == identity
    return cached if is_of_file and scanner.accepts(cached.contents) else None


def _open_files(
    candidates: list[_Unopened], recovery: FaultTolerantReader | None, log: Log
) -> tuple[RecordFile, ...]:
    """Opens files, several at a time, and caches what it verifies."""
    start = time.monotonic()
    num_bytes = sum(c.identity[0] for c in candidates if c.is_read)
    is_long = num_bytes >= BYTES_TO_ANNOUNCE
    if is_long:
        directory = os.path.dirname(candidates[0].path)
        log(f"Verifying {num_bytes / 2**30:.2f} GiB of records in {directory}")
    new_entries: dict[str, CacheEntry] = {}
    num_threads = min(_MAX_THREADS, machine.num_cores())
    try:
        with futures.ThreadPoolExecutor(num_threads) as pool:
            opened = tuple(
                pool.map(
                    lambda c: _open_file(c, recovery, new_entries), candidates
                )
            )
    finally:  # the sound files beside a damaged one stay verified
        for directory, paths in itertools.groupby(
            sorted(new_entries), os.path.dirname
        ):
            verification_cache.add(
                directory, {path: new_entries[path] for path in paths}
            )
    if is_long:
        log(f"Verified in {time.monotonic() - start:.1f} s")
    return opened


def _open_file(
    candidate: _Unopened,
    recovery: FaultTolerantReader | None,
    new_entries: dict[str, CacheEntry],
) -> RecordFile:
    """Verifies a file, against its entry in a manifest if there is one."""
    path, identity, listed, scanner, cached, is_read = candidate
    size, *_ = version = tuple(identity[:2])
    if not size:
        raise UserError(
            f"{path} must hold records. Received: 0 bytes. Restore the file "
            "or build the data set again."
        )
    try:
        if is_read:
            new_entries[path] = cached = CacheEntry(
                identity, scanner.scan(path)
            )
        if cached:
            num_records = cached.contents.num_records
        else:
            scanner.scan(path, max_records=1)
            num_records = listed.num_records
        if listed and num_records != listed.num_records:
            raise DamageError(
                f"{path} must have the {listed.num_records} records that its "
                f"{MANIFEST} states. Received: {num_records} records."
            )
    except DamageError:
        if not recovery:
            raise
        num_records = listed.num_records if listed else len(recover(path))
        scanner.check(path, recovery.read(path, num_records))
    file = listed or RecordFile(path, num_records, size, scanner.max_seq_length)
    # Records that are damaged during the run are left out, too.
    return file if recovery else dataclasses.replace(file, version=version)


def check_unchanged(files: Iterable[RecordFile]) -> None:
    """Checks that files are as they were when they were opened."""
    for file in files:
        try:
            size, *_ = version = tuple(storage.version(file.path))
        except FileNotFoundError:
            found = "no such file"
        else:
            if file.version in (None, version):
                continue
            found = f"{size} bytes, modified since the run opened it"
        raise UserError(
            f"{file.path} must stay unchanged while a run reads it: "
            f"{file.num_records} records. Received: {found}. Restore it and "
            "run the same command to resume from the last checkpoint."
        )


@contextlib.contextmanager
def explaining_read_errors(data_sets: Mapping[int, Records]) -> Iterator[None]:
    """Replaces TensorFlow's errors in reading records by their causes."""
    files = [f for records in data_sets.values() for f in records.files]
    try:
        check_unchanged(files)
        yield
    except tf.errors.OpError as error:
        try:
            check_unchanged(files)
        except UserError as changed:
            raise changed from error
        if isinstance(error, tf.errors.DataLossError):
            verification_cache.forget({os.path.dirname(f.path) for f in files})
            raise UserError(locate_damage(f.path for f in files)) from error
        raise
