"""Merging the shards of a corpus into its data sets, the end of a build.

The records of the shards are distributed over the files of the data sets, and
these get their names when all of them are complete.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, dataset_files, held_out, receipts
from electra_tf.data.dataset_files import (
    MANIFEST,
    SHARDS_DIRECTORY,
    RecordWriter,
    find_data_set,
)
from electra_tf.data.record_format import HELD_OUT, TRAIN, RecordKind, kinds
from electra_tf.data.runners import Runner
from electra_tf.data.shards import Shard, build_undecided
from electra_tf.data.summaries import Summary
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

FILE_BYTES = 16 * 2**20  # a file is about as large as its text
MAX_FILES = 512  # all are open at once


class _Merged(NamedTuple):
    """A data set that is written but not published.

    Attributes:
      directory: where it goes.
      manifest: without its files.
      unigrams: how often each token occurs in training records.
      writers: of its files.
    """

    directory: str
    manifest: dict[str, Any]
    unigrams: list[int]
    writers: list[RecordWriter]


def merge(
    shards: list[Shard],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    runner: Runner,
    report: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Merges shards into the data sets of their corpus.

    Args:
      shards: of the corpus, in order, all of them done.
      config: of the corpus.
      vocabulary: of its tokens.
      output_dir: of the data set with the longest rows.
      runner: distributes the records.
      report: called now and then with the number of records that are written
        to the files of a data set, and that it will have.

    Returns:
      The manifest of the data set with the longest rows.

    Raises:
      UserError: if the corpus gives no record for training.
    """
    total = Summary.empty(len(config.data_sets), vocabulary.size)
    num_records: dict[RecordKind, list[int]] = {k: [] for k in kinds(config)}
    for shard in shards:
        _add(shard, total, num_records)
    if decided := held_out.decide(total.undecided, total.splits):
        last = build_undecided(decided, config, vocabulary, output_dir)
        shards = [*shards, last]
        _add(last, total, num_records)
    try:
        manifests = [
            _manifest(total, number, data_set, vocabulary)
            for number, data_set in enumerate(config.data_sets)
        ]
    except UserError:
        remove_shards(output_dir)  # this text gives nothing
        raise
    with contextlib.ExitStack() as stack:
        merged = []
        for number, data_set in enumerate(config.data_sets):
            output = config.directory_of(data_set, output_dir)
            num_bytes = total.statistics.text_bytes
            writers = _writers(data_set, output, num_bytes, stack)
            _distribute(shards, writers, num_records, runner, report)
            unigrams = total.packed[number].unigrams.tolist()
            merged.append(
                _Merged(
                    output, manifests[number], unigrams, [*writers.values()]
                )
            )
        _publish(merged)
    return manifests[-1]


def _distribute(
    shards: list[Shard],
    writers: Mapping[RecordKind, RecordWriter],
    num_records: Mapping[RecordKind, list[int]],
    runner: Runner,
    report: Callable[[int, int], None],
) -> None:
    """Writes the records of one data set to its files."""
    of_each = {kind: num_records[kind] for kind in writers}
    total = sum(map(sum, of_each.values()))
    runner.distribute_records(
        shards, writers, of_each, lambda number: report(number, total)
    )
    for writer in writers.values():
        writer.close()


def _add(
    shard: Shard, total: Summary, num_records: dict[RecordKind, list[int]]
) -> None:
    """Adds the counts of a shard."""
    summary = Summary.read(shard.summary_path)
    total.add(summary)
    for kind, numbers in num_records.items():
        numbers.append(summary.num_records(kind))


def _manifest(
    total: Summary, number: int, data_set: CorpusConfig, vocabulary: Vocabulary
) -> dict[str, Any]:
    """Returns the manifest of a data set, without its files."""
    packed = total.packed[number]
    counts = _counts(total.statistics, packed.counts, data_set)
    counts["train_tokens"] = int(packed.unigrams.sum())
    lengths = total.lengths.items()
    return dataset_files.settings(data_set, vocabulary) | {
        "counts": counts,
        "document_tokens": {split: each.summary() for split, each in lengths},
    }


def _counts(
    read: corpus.Statistics, packed: Mapping[str, int], config: CorpusConfig
) -> dict[str, Any]:
    """Returns the counts of a data set's manifest."""
    _check_records(read, packed, config)
    num_padding = (
        packed["slots"] - packed["tokens_kept"] - packed["special_tokens"]
    )
    return dataclasses.asdict(read) | {
        "held_out_documents": packed["held_out_documents"],
        "documents_without_tokens": packed["documents_without_tokens"],
        "tokens_read": packed["tokens_read"],
        "tokens_kept": packed["tokens_kept"],
        "tokens_dropped": packed["tokens_read"] - packed["tokens_kept"],
        "padding_share": round(num_padding / packed["slots"], 6),
        "examples": packed["examples"],
        "records": packed["records"],
        "held_out_records": packed["held_out_records"],
    }


def _check_records(
    read: corpus.Statistics, packed: Mapping[str, int], config: CorpusConfig
) -> None:
    """Checks that there is text, and a record to train on."""
    corpus.check_text(read)
    if packed["records"] <= packed["held_out_records"]:
        raise UserError(
            "The corpus must give at least one record for training. Received: "
            f"{read.documents} document(s) with {packed['tokens_read']} "
            f"token(s), held_out_fraction={config.held_out_fraction}."
        )


def _writers(
    config: CorpusConfig,
    output_dir: str,
    num_text_bytes: int,
    stack: contextlib.ExitStack,
) -> dict[RecordKind, RecordWriter]:
    """Returns the writer of each kind of records of a data set."""
    num_train = config.num_shards or min(
        MAX_FILES, 1 + num_text_bytes // FILE_BYTES
    )
    num_files = {
        TRAIN: max(1, num_train // len(config.row_lengths)),
        HELD_OUT: max(1, round(num_train * config.held_out_fraction)),
    }
    return {
        kind: stack.enter_context(
            RecordWriter(output_dir, kind, num_files[kind.split])
        )
        for kind in kinds(config)
    }


def _publish(merged: Iterable[_Merged]) -> None:
    """Replaces older data sets by the complete new ones."""
    receipts.forget(data_set.directory for data_set in merged)
    for data_set in merged:
        remove_files(find_data_set(data_set.directory))
    try:
        for directory, manifest, unigrams, writers in merged:
            manifest["files"] = [
                entry for writer in writers for entry in writer.publish()
            ]
            dataset_files.write_unigram_counts(directory, unigrams)
            files.write_json(os.path.join(directory, MANIFEST), manifest)
    except BaseException:
        for data_set in merged:
            remove_files(find_data_set(data_set.directory))
        raise


def remove_shards(output_dir: str) -> None:
    """Removes the shards that a data set was merged from."""
    with contextlib.suppress(FileNotFoundError):
        storage.remove(os.path.join(output_dir, SHARDS_DIRECTORY))


def remove_files(paths: Iterable[str]) -> None:
    """Removes files and directories."""
    for path in paths:
        storage.remove(path)
