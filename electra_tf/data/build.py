"""Builds the data sets of a corpus: record files and a manifest.

One pass over the text makes the data sets of all lengths: shards of the corpus
become records, in several processes, which are then distributed over files. The
records depend on text, vocabulary and settings alone; memory is constant. Files
are made in `PARTS` and moved, the manifest last: all of a data set or nothing.
"""

import contextlib
import functools
import itertools
import multiprocessing
import os
import resource
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, packing, records, selection
from electra_tf.data.records import (
    HELD_OUT,
    MANIFEST,
    PARTS,
    PREFIXES,
    SPLITS,
    TRAIN,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files
from electra_tf.util.console import num_cores
from electra_tf.util.errors import UserError

SHARD_BYTES = 16 * 2**20  # of text
SHARDS_PER_PROCESS = 4  # at least, if the number of processes is not given
FILE_BYTES = 16 * 2**20  # a file is about as large as its text
MAX_FILES = 512  # of training records, unless `num_shards` is given
MAX_UNKNOWN_SHARE = 0.05  # of the training tokens


class Shard(NamedTuple):
    """A part of the corpus, and where its records and counts are written."""

    sources: tuple[corpus.TextSource, ...]
    directory: str
    dropped: bytes = b""  # a bit for each document

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def records(self, name: str) -> Iterator[bytes]:
        dataset = tf.data.TFRecordDataset(self.path(name))
        for batch in dataset.batch(1024):
            yield from batch.numpy()


def divide(
    sources: Iterable[corpus.TextSource], config: CorpusConfig
) -> Iterator[tuple[corpus.TextSource, ...]]:
    """Splits large sources and joins small ones, to shards.

    The text of a shard depends on the corpus alone.
    """
    if config.packing == "original":  # its state goes from document to document
        yield tuple(sources)
        return
    group, size = [], 0
    for source in sources:
        for piece in corpus.split_source(source, SHARD_BYTES, config):
            num_bytes = piece.num_text_bytes
            if group and size + num_bytes > SHARD_BYTES:
                yield tuple(group)
                group, size = [], 0
            group.append(piece)
            size += num_bytes
    yield tuple(group)


def write_hashes(shard: Shard, config: CorpusConfig) -> None:
    tf.io.gfile.makedirs(shard.directory)
    documents = corpus.read_documents(shard.sources, config, corpus.Counts())
    hashes = (
        selection.document_hash(lines, do_lower_case=config.do_lower_case)
        for lines in documents
    )
    files.atomic_write_bytes(shard.path("hashes"), b"".join(hashes))


def convert(shard: Shard, config: CorpusConfig, vocabulary: Vocabulary) -> None:
    """Writes the records of a shard, and a summary of them."""
    read = corpus.Counts()
    splitter = selection.Splitter(config.held_out_fraction, config.data_seed)
    documents = corpus.read_documents(shard.sources, config, read)
    documents = selection.without_duplicates(documents, shard.dropped, read)
    summary = pack(splitter.assign(documents), shard, config, vocabulary)
    summary["read"] = read
    summary["splits"] = sorted(splitter.splits)
    summary["undecided"] = splitter.undecided
    files.write_json(shard.path("summary.json"), summary)


def pack(
    documents: Iterable[selection.Document],
    shard: Shard,
    config: CorpusConfig,
    vocabulary: Vocabulary,
) -> dict[str, Any]:
    """Tokenizes documents once, packs them for each data set, and counts."""
    tf.io.gfile.makedirs(shard.directory)
    with contextlib.ExitStack() as stack:
        packers = []
        for data_set in config.data_sets:
            writers = {}
            for split in SPLITS:
                path = shard.path(_part_name(data_set, split))
                writer = tf.io.TFRecordWriter(path)
                writers[split] = stack.enter_context(writer)
            packers.append(packing.Packer(data_set, vocabulary, writers))
        for tokenized in packing.tokenize(documents, config, vocabulary):
            for packer in packers:
                packer.add(*tokenized)
        for packer in packers:
            packer.flush()
    return {
        "counts": [packer.counts for packer in packers],
        "unigrams": [packer.unigrams.tolist() for packer in packers],
    }


class LocalEngine:
    def __init__(self, num_processes: int = 1) -> None:
        self._num_processes = num_processes

    def map(
        self, function: Callable[[Shard], None], shards: list[Shard]
    ) -> None:
        log_sometimes = console.Periodic(console.say)
        # A process takes seconds to start.
        number = self._num_processes or min(
            num_cores(), len(shards) // SHARDS_PER_PROCESS
        )
        with contextlib.ExitStack() as stack:
            done = map(function, shards)
            if number > 1 and len(shards) > 1:
                # A fork of a process with TensorFlow's threads may hang.
                context = multiprocessing.get_context("spawn")
                pool = futures.ProcessPoolExecutor(
                    min(number, len(shards)), context, _start_worker
                )
                stack.callback(pool.shutdown, cancel_futures=True)
                done = pool.map(function, shards)
            try:
                for i, _ in enumerate(done, 1):
                    log_sometimes(
                        lambda i=i: f"{i:,} of {len(shards):,} shards"
                    )
            except futures.BrokenExecutor as error:
                raise MemoryError(
                    "A process of the build was killed: lower --num_processes"
                ) from error

    def distribute(
        self,
        shards: list[Shard],
        num_records: Mapping[str, list[int]],
        paths: Mapping[str, list[str]],
    ) -> None:
        """Writes the records of all shards to files in turn.

        Both mappings have the name of the records in a shard: their number in
        each shard, and the files to write.
        """
        for name in paths:
            with contextlib.ExitStack() as stack:
                writers = [
                    stack.enter_context(tf.io.TFRecordWriter(path))
                    for path in paths[name]
                ]
                written = itertools.chain(*(x.records(name) for x in shards))
                for writer, record in zip(itertools.cycle(writers), written):
                    writer.write(record)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def build_records(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    overwrite: bool = False,
    leave_out: Iterable[str] = (),
    engine: Any = None,  # noqa: ANN401 (a `LocalEngine` or `BeamEngine`)
) -> dict[str, Any]:
    """Builds the data sets of a corpus; returns the manifest of the last."""
    outputs = [config.directory_of(c, output_dir) for c in config.data_sets]
    console.say(f"Building records in {', '.join(outputs)}")
    engine = engine or LocalEngine()
    sources = corpus.expand(config.corpus, leave_out=[*outputs, *leave_out])
    if config.num_shards > MAX_FILES:  # perhaps the limit of open files, too
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limits = (max(soft, config.num_shards + 100), hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with contextlib.ExitStack() as stack:
        for output in outputs:
            tf.io.gfile.makedirs(output)
            stack.enter_context(files.lock_directory(output))
        if not overwrite:
            _check_free(outputs)
        for output in outputs:
            parts = os.path.join(output, PARTS)
            if tf.io.gfile.exists(parts):  # of a build that was killed
                tf.io.gfile.rmtree(parts)
            tf.io.gfile.makedirs(parts)
            stack.callback(lambda path=parts: tf.io.gfile.rmtree(path))
        shards = [
            Shard(group, os.path.join(output_dir, PARTS, f"{number:06}"))
            for number, group in enumerate(divide(sources, config))
        ]
        if config.drop_duplicates:
            step = functools.partial(write_hashes, config=config)
            engine.map(step, shards)
            dropped = selection.find_repeated(
                [shard.path("hashes") for shard in shards]
            )
            shards = [
                shard._replace(dropped=bits)
                for shard, bits in zip(shards, dropped, strict=True)
            ]
        step = functools.partial(convert, config=config, vocabulary=vocabulary)
        engine.map(step, shards)
        manifests = _merge(shards, config, vocabulary, outputs, engine)
    for manifest in manifests:
        _report(manifest)
    return manifests[-1]


def _check_free(outputs: list[str]) -> None:
    """Raises if there is a data set that no killed build wrote."""
    was_killed = any(map(records.is_half_built, outputs))
    for output in filter(records.find_data_set, outputs):
        is_part = tf.io.gfile.exists(os.path.join(output, PARTS))
        if not (was_killed and is_part):
            raise UserError(f"{output} holds records; see {records.REBUILD}.")


def _merge(
    shards: list[Shard],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    outputs: list[str],
    engine: Any,  # noqa: ANN401
) -> list[dict[str, Any]]:
    """Writes the data sets from the records of shards; returns manifests."""
    read, splits, undecided = Counter(), set(), []
    counts = []  # for each shard, those of each data set
    unigrams = np.zeros((len(outputs), vocabulary.size), np.int64)
    for shard in shards:
        summary = files.read_json(shard.path("summary.json"))
        read.update(summary["read"])
        splits.update(summary["splits"])
        undecided += [selection.Document(*x) for x in summary["undecided"]]
        counts.append(summary["counts"])
        unigrams += summary["unigrams"]
    if decided := selection.decide(undecided, splits):
        shard = Shard((), os.path.join(outputs[-1], PARTS, "undecided"))
        summary = pack(decided, shard, config, vocabulary)
        shards = [*shards, shard]
        counts.append(summary["counts"])
        unigrams += summary["unigrams"]
    num_files = min(MAX_FILES, 1 + read["text_bytes"] // FILE_BYTES)
    manifests = []
    for i, data_set in enumerate(config.data_sets):
        packed = sum((Counter(x[i]) for x in counts), Counter())
        num_records, paths = {}, {}
        for split in SPLITS:
            name = _part_name(data_set, split)
            num_records[name] = [x[i].get(split, 0) for x in counts]
            number = data_set.num_shards or num_files
            if split == HELD_OUT:
                number = round(number * data_set.held_out_fraction)
            number = min(max(1, number), packed[split])
            paths[name] = [
                f"{outputs[i]}/{PARTS}/{PREFIXES[split]}.tfrecord-{n}-of-{number}"
                for n in range(number)
            ]
        if not packed[TRAIN]:
            raise UserError(f"The corpus gives no training record: {read}.")
        engine.distribute(shards, num_records, paths)
        manifest = records.settings(data_set, vocabulary)
        manifest["files"] = [
            {
                "name": os.path.basename(path),
                "num_records": len(
                    range(n, sum(num_records[name]), len(paths[name]))
                ),
                "num_bytes": tf.io.gfile.stat(path).length,
            }
            for name in paths
            for n, path in enumerate(paths[name])
        ]
        manifest["counts"] = {
            **read,
            **{name: n for name, n in packed.items() if name not in SPLITS},
            "tokens_dropped": packed["tokens_read"] - packed["tokens_kept"],
            "padding_share": round(packed["padding"] / packed["slots"], 6),
            "records": packed[TRAIN] + packed[HELD_OUT],
            "held_out_records": packed[HELD_OUT],
            "train_tokens": int(unigrams[i].sum()),
            "unknown_train_tokens": int(unigrams[i][vocabulary.unk_id]),
        }
        manifests.append(manifest)
    _publish(outputs, manifests, unigrams)
    return manifests


def _publish(
    outputs: list[str], manifests: list[dict[str, Any]], unigrams: np.ndarray
) -> None:
    """Removes older data sets and moves the new ones to their places."""
    for output in outputs:
        for path in records.find_data_set(output):
            tf.io.gfile.remove(path)
    data_sets = zip(outputs, manifests, unigrams, strict=True)
    for output, manifest, counts in data_sets:
        for entry in manifest["files"]:
            new = os.path.join(output, PARTS, entry["name"])
            tf.io.gfile.rename(new, os.path.join(output, entry["name"]))
        records.write_unigram_counts(output, counts)
        files.write_json(os.path.join(output, MANIFEST), manifest)


def _part_name(data_set: CorpusConfig, split: str) -> str:
    return f"{data_set.max_seq_length}-{split}"


def _report(manifest: Mapping[str, Any]) -> None:
    counts = manifest["counts"]
    console.say(f"Rows of {manifest['max_seq_length']} tokens:")
    for name, number in counts.items():
        if number:
            console.say(f"  {number:>16,} {name.replace('_', ' ')}")
    share = counts["unknown_train_tokens"] / counts["train_tokens"]
    if share > MAX_UNKNOWN_SHARE:
        console.warn(
            f"{share:.1%} of the training tokens are [UNK]: does the "
            "vocabulary fit the language and the letter case of the text?"
        )
