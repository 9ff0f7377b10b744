"""Builds the data sets of a corpus: record files and a manifest.

If training has phases of several lengths, there is a data set for each length,
all made in one pass over the text, with the same documents held out.

A build first maps, then merges. The corpus is divided into shards, and each is
turned into records by one of several processes. Then the records of all shards
are distributed over the files of the data sets, in turn. The records depend on
text, vocabulary and settings alone, and memory does not grow with the corpus.

All of it happens in `PARTS` beside the records. At the end the files are moved
to their places, the manifest last: a data set is complete or not there. A build
that was stopped starts again.
"""

import collections
import contextlib
import functools
import itertools
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from typing import Any

import filelock
import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, deduplication, held_out, records
from electra_tf.data.corpus import expand
from electra_tf.data.records import MANIFEST, PARTS, TRAIN, RecordKind, kinds
from electra_tf.data.shards import (
    SUMMARY,
    Shard,
    convert,
    divide,
    pack,
    write_hashes,
    write_summary,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files
from electra_tf.util.console import num_cores
from electra_tf.util.errors import UserError

SHARDS_PER_PROCESS = 4  # at least, if the number of processes is not given
FILE_BYTES = 16 * 2**20  # a file is about as large as its text
MAX_FILES = 512  # of training records, unless `num_shards` is given
MAX_UNKNOWN_SHARE = 0.05  # of the training tokens

Log = Callable[[str], None]


class LocalEngine:
    """Runs a build in processes of this machine."""

    def __init__(self, num_processes: int = 1) -> None:
        self._num_processes = num_processes

    def map(
        self, function: Callable[[Shard], None], shards: list[Shard], log: Log
    ) -> None:
        """Calls a function for each shard, in several processes or here."""
        log_progress = _progress(log, shards)
        # A process takes seconds to start.
        number = self._num_processes or min(
            num_cores(), len(shards) // SHARDS_PER_PROCESS
        )
        number = min(number, len(shards))
        if number <= 1:
            for shard in shards:
                function(shard)
                log_progress(shard)
            return
        # A fork of a process with TensorFlow's threads may hang.
        context = multiprocessing.get_context("spawn")
        pool = futures.ProcessPoolExecutor(number, context, _start_worker)
        try:
            largest_first = sorted(shards, key=lambda x: -x.num_text_bytes)
            running = {
                pool.submit(function, shard, num_threads=1): shard
                for shard in largest_first
            }
            for done in futures.as_completed(running):
                done.result()
                log_progress(running[done])
        except futures.BrokenExecutor as error:
            raise MemoryError(
                "A process of the build was killed: lower --num_processes"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)

    def distribute(
        self,
        shards: list[Shard],
        num_records: Mapping[RecordKind, list[int]],
        paths: Mapping[RecordKind, list[str]],
    ) -> None:
        """Writes the records of each kind to its files in turn."""
        del num_records
        for kind, kind_paths in paths.items():
            with contextlib.ExitStack() as stack:
                writers = itertools.cycle(
                    [
                        stack.enter_context(tf.io.TFRecordWriter(path))
                        for path in kind_paths
                    ]
                )
                for shard in shards:
                    for record in shard.records(kind):
                        next(writers).write(record)


def _start_worker() -> None:
    """Prepares a process of the pool, on one core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _progress(log: Log, shards: list[Shard]) -> Callable[[Shard], None]:
    """Returns a function that logs from time to time how much text is read."""
    log_sometimes = console.Periodic(log)
    total = sum(shard.num_text_bytes for shard in shards) / 1e6
    start, num_read = time.monotonic(), 1e-6

    def count(shard: Shard) -> None:
        nonlocal num_read
        num_read += shard.num_text_bytes / 1e6
        speed = num_read / (time.monotonic() - start)
        log_sometimes(
            lambda: (
                f"{num_read:,.0f} of {total:,.0f} MB read, {speed:.1f} "
                f"MB/s, {(total - num_read) / speed / 60:.0f} min left"
            )
        )

    return count


def build_records(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    overwrite: bool = False,
    leave_out: Iterable[str] = (),
    engine: Any = None,  # noqa: ANN401 (a `LocalEngine` or `BeamEngine`)
    log: Log = lambda _: None,
) -> dict[str, Any]:
    """Builds the data sets of a corpus; returns the manifest of the last."""
    outputs = [config.directory_of(c, output_dir) for c in config.data_sets]
    log(f"Building records in {', '.join(outputs)}")
    engine = engine or LocalEngine()
    _check_free(outputs, overwrite)
    sources = expand(
        config.corpus,
        tfds_data_dir=config.tfds_data_dir,
        leave_out=[*outputs, *leave_out],
    )
    if config.num_shards > MAX_FILES:  # perhaps the limit of open files, too
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limits = (config.num_shards + 100, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with contextlib.ExitStack() as stack:
        for output in outputs:
            stack.enter_context(_parts_directory(output))
        _check_free(outputs, overwrite)  # one may have been built meanwhile
        shards = [
            Shard(group, os.path.join(output_dir, PARTS, f"{number:06}"))
            for number, group in enumerate(divide(sources, config))
        ]
        if config.drop_duplicates:
            engine.map(
                functools.partial(write_hashes, config=config), shards, log
            )
            dropped = deduplication.find([x.hashes_path for x in shards])
            shards = [
                shard._replace(dropped=bits)
                for shard, bits in zip(shards, dropped, strict=True)
            ]
        step = functools.partial(convert, config=config, vocabulary=vocabulary)
        engine.map(step, shards, log)
        manifests = _merge(shards, config, vocabulary, outputs, engine)
    _log_result(manifests, log)
    return manifests[-1]


def _check_free(outputs: list[str], overwrite: bool) -> None:
    """Refuses to replace a data set, unless told or it is half built."""
    if overwrite or any(map(records.is_half_built, outputs)):
        return
    for output in outputs:
        if records.find_data_set(output):
            raise UserError(
                f"{output} holds a data set: choose another directory or pass "
                "--overwrite."
            )


@contextlib.contextmanager
def _parts_directory(output: str) -> Iterator[None]:
    """Makes the directory of a build's parts; removes it after the block."""
    parts = os.path.join(output, PARTS)
    tf.io.gfile.makedirs(output)
    lock = contextlib.nullcontext()
    if "://" not in output:
        lock = filelock.FileLock(os.path.join(output, ".lock"), timeout=0)
    with lock:
        try:
            if tf.io.gfile.exists(parts):  # of a build that was killed
                tf.io.gfile.rmtree(parts)
            tf.io.gfile.makedirs(parts)
            yield
        finally:
            tf.io.gfile.rmtree(parts)


def _merge(
    shards: list[Shard],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    outputs: list[str],
    engine: Any,  # noqa: ANN401
) -> list[dict[str, Any]]:
    """Writes the data sets from the records of shards; returns manifests."""
    statistics = collections.Counter()
    counts = [collections.Counter() for _ in outputs]
    unigrams = [np.zeros(vocabulary.size, np.int64) for _ in outputs]
    num_records = collections.defaultdict(list)
    splits, undecided = set(), []

    def add_summary(shard: Shard) -> None:
        path = os.path.join(shard.directory, SUMMARY)
        summary = files.read_json(path)
        statistics.update(summary.get("statistics", {}))
        splits.update(summary.get("splits", ()))
        undecided.extend(summary.get("undecided", ()))
        for i, data_set in enumerate(config.data_sets):
            counts[i].update(summary["counts"][i])
            unigrams[i] += summary["unigrams"][i]
            for kind in kinds(data_set):
                number = summary["counts"][i].get(str(kind), 0)
                num_records[kind].append(number)

    for shard in shards:
        add_summary(shard)
    last = held_out.decide(
        [held_out.Document(*document) for document in undecided], splits
    )
    if last:  # the documents whose split depended on all others
        shard = Shard((), os.path.join(outputs[-1], PARTS, "undecided"))
        write_summary(shard, pack(last, shard, config, vocabulary))
        undecided.clear()
        add_summary(shard)
        shards = [*shards, shard]
    if counts[-1]["records"] == counts[-1]["held_out_records"]:
        raise UserError(
            f"The corpus gives no training record: {statistics['documents']} "
            f"documents, {counts[-1]['tokens_read']} tokens."
        )
    manifests = []
    for i, data_set in enumerate(config.data_sets):
        paths = _file_paths(
            data_set, outputs[i], num_records, statistics["text_bytes"]
        )
        engine.distribute(shards, num_records, paths)
        manifest = records.settings(data_set, vocabulary)
        manifest["counts"] = _counts(statistics, counts[i]) | {
            "train_tokens": int(unigrams[i].sum()),
            "unknown_train_tokens": int(unigrams[i][vocabulary.unk_id]),
        }
        manifest["files"] = _list_files(paths, num_records)
        manifests.append(manifest)
    for output in outputs:
        for path in records.find_data_set(output):
            tf.io.gfile.remove(path)
    for output, manifest, each in zip(
        outputs, manifests, unigrams, strict=True
    ):
        for entry in manifest["files"]:
            tf.io.gfile.rename(
                os.path.join(output, PARTS, entry["name"]),
                os.path.join(output, entry["name"]),
            )
        records.write_unigram_counts(output, each)
        files.write_json(os.path.join(output, MANIFEST), manifest)
    return manifests


def _file_paths(
    data_set: CorpusConfig,
    output: str,
    num_records: Mapping[RecordKind, list[int]],
    num_text_bytes: int,
) -> dict[RecordKind, list[str]]:
    """Returns the files of each kind of records, until they are moved."""
    num_train = data_set.num_shards or min(
        MAX_FILES, 1 + num_text_bytes // FILE_BYTES
    )
    paths = {}
    for kind in kinds(data_set):
        num_files = (
            num_train // len(data_set.row_lengths)
            if kind.split == TRAIN
            else round(num_train * data_set.held_out_fraction)
        )
        num_files = min(max(1, num_files), sum(num_records[kind]))
        paths[kind] = [
            os.path.join(output, PARTS, name)
            for name in kind.file_names(num_files)
        ]
    return paths


def _list_files(
    paths: Mapping[RecordKind, list[str]],
    num_records: Mapping[RecordKind, list[int]],
) -> list[dict[str, Any]]:
    """Returns the entries of files in a manifest."""
    entries = []
    for kind, kind_paths in paths.items():
        total = sum(num_records[kind])
        for i, path in enumerate(kind_paths):
            entry = {
                "name": os.path.basename(path),
                "split": kind.split,
                "num_records": len(range(i, total, len(kind_paths))),
                "num_bytes": tf.io.gfile.stat(path).length,
            }
            if not kind.is_longest:
                entry["max_seq_length"] = kind.length
            entries.append(entry)
    return entries


def _counts(
    statistics: Mapping[str, int], packed: Mapping[str, int]
) -> dict[str, Any]:
    """Returns the counts of a manifest."""
    num_padding = (
        packed["slots"] - packed["tokens_kept"] - packed["special_tokens"]
    )
    names = ("held_out_documents", "documents_without_tokens", "tokens_read")
    names += ("tokens_kept", "examples", "records", "held_out_records")
    return {
        **statistics,
        **{name: packed[name] for name in names},
        "tokens_dropped": packed["tokens_read"] - packed["tokens_kept"],
        "padding_share": round(num_padding / packed["slots"], 6),
    }


def _log_result(manifests: list[dict[str, Any]], log: Log) -> None:
    """Logs what was built, and warns if many tokens are unknown."""
    for manifest in manifests:
        lengths = [*manifest["length_buckets"], manifest["max_seq_length"]]
        counts = manifest["counts"]
        log(
            f"{counts['records']:,} records of {'/'.join(map(str, lengths))} "
            f"tokens, {counts['padding_share']:.1%} padding, "
            f"{counts['held_out_records']:,} of them held out; "
            f"{counts['tokens_kept']:,} tokens kept, "
            f"{counts['tokens_dropped']:,} dropped"
        )
    read = [
        f"{counts[name]:,} {name.replace('_', ' ')}"
        for name in vars(corpus.Statistics())
        if counts.get(name)
    ]
    log(f"Read: {', '.join(read)}")
    share = counts["unknown_train_tokens"] / counts["train_tokens"]
    log(f"[UNK]: {share:.3%} of the training tokens")
    if share > MAX_UNKNOWN_SHARE:
        console.warn(
            f"{share:.1%} of the training tokens are [UNK]: does the "
            "vocabulary fit the language and the letter case of the text?"
        )
