"""Merging the shards of a corpus into its data sets, the last step of a build.

The records of the shards are distributed over the files of the data sets, which
get their final names when all of them are complete.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, dataset_files, held_out
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
from electra_tf.util import files, machine, storage
from electra_tf.util.errors import UserError

FILE_BYTES = 16 * 2**20  # a file is about as large as its text
MAX_FILES = 512  # all are open at once

_OTHER_FILES = 64  # that a process has open


def merge(
    shards: list[Shard],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    runner: Runner,
    report: Callable[[int, int], None],
) -> list[dict[str, Any]]:
    """Merges shards into the data sets of their corpus."""
    total = Summary.empty(len(config.data_sets), vocabulary.size)
    num_records: dict[RecordKind, list[int]] = {k: [] for k in kinds(config)}
    for shard in shards:
        _add_counts(shard, total, num_records)
    if decided := held_out.decide(total.undecided, total.splits):
        last = build_undecided(decided, config, vocabulary, output_dir)
        shards = [*shards, last]
        _add_counts(last, total, num_records)
    try:
        manifests = [
            _manifest(total, number, data_set, vocabulary)
            for number, data_set in enumerate(config.data_sets)
        ]
    except UserError:
        remove_shards(output_dir)  # this text gives no records
        raise
    outputs = [config.directory_of(c, output_dir) for c in config.data_sets]
    num_bytes = total.statistics.text_bytes
    with contextlib.ExitStack() as stack:
        writers_of_data_sets = []
        for data_set, output in zip(config.data_sets, outputs, strict=True):
            writers = _writers(data_set, output, num_bytes, stack)
            runner.distribute_records(shards, writers, num_records, report)
            for writer in writers.values():
                writer.close()
            writers_of_data_sets.append([*writers.values()])
        _publish(outputs, manifests, total, writers_of_data_sets)
    return manifests


def allow_open_files(config: CorpusConfig) -> None:
    """Lets this process have all files of a data set open at once."""
    num_train = config.num_shards or MAX_FILES
    num_files = max(
        sum(_num_files(data_set, num_train).values())
        for data_set in config.data_sets
    )
    limit = machine.allow_open_files(_OTHER_FILES + num_files)
    if config.num_shards and limit < _OTHER_FILES + num_files:
        most = num_train * (limit - _OTHER_FILES) // num_files
        raise UserError(
            f"`num_shards` must be at most {most}, as this process may have "
            f"{limit} files open. Received: num_shards={num_train}. Lower it, "
            "or raise the hard limit of open files (`ulimit -Hn`)."
        )


def _add_counts(
    shard: Shard, total: Summary, num_records: dict[RecordKind, list[int]]
) -> None:
    """Adds the counts of a shard to the totals."""
    summary = Summary.read(shard.summary_path)
    total.add(summary)
    for kind, numbers in num_records.items():
        numbers.append(summary.num_records(kind))


def _manifest(
    total: Summary, number: int, data_set: CorpusConfig, vocabulary: Vocabulary
) -> dict[str, Any]:
    """Returns the manifest of a data set, without its files."""
    counts, unigrams = total.packed[number]
    lengths = total.lengths.items()
    return dataset_files.settings(data_set, vocabulary) | {
        "counts": _counts(total.statistics, counts, data_set)
        | {
            "train_tokens": int(unigrams.sum()),
            "unknown_train_tokens": int(unigrams[vocabulary.unk_id]),
        },
        "document_tokens": {split: each.summary() for split, each in lengths},
    }


def _counts(
    statistics: corpus.Statistics,
    packed: Mapping[str, int],
    config: CorpusConfig,
) -> dict[str, Any]:
    """Returns the counts of a manifest; refuses a corpus without records."""
    corpus.check_text(statistics)
    if packed["records"] <= packed["held_out_records"]:
        raise UserError(
            "The corpus must give at least one record for training. Received: "
            f"{statistics.documents} document(s) with {packed['tokens_read']} "
            f"token(s), held_out_fraction={config.held_out_fraction}."
        )
    num_padding = (
        packed["slots"] - packed["tokens_kept"] - packed["special_tokens"]
    )
    return dataclasses.asdict(statistics) | {
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
    return {
        kind: stack.enter_context(RecordWriter(output_dir, kind, num_files))
        for kind, num_files in _num_files(config, num_train).items()
    }


def _num_files(config: CorpusConfig, num_train: int) -> dict[RecordKind, int]:
    """Returns the number of files of each kind of records of a data set."""
    num_files = {
        TRAIN: max(1, num_train // len(config.row_lengths)),
        HELD_OUT: max(1, round(num_train * config.held_out_fraction)),
    }
    return {kind: num_files[kind.split] for kind in kinds(config)}


def _publish(
    outputs: list[str],
    manifests: list[dict[str, Any]],
    total: Summary,
    writers: list[list[RecordWriter]],
) -> None:
    """Replaces older data sets in `outputs` by the new ones."""
    remove_data_sets(outputs)
    dataset_files.begin_publishing(outputs)
    try:
        for output, manifest, packed, data_set_writers in zip(
            outputs, manifests, total.packed, writers, strict=True
        ):
            manifest["files"] = [
                x for w in data_set_writers for x in w.publish()
            ]
            dataset_files.write_unigram_counts(output, packed.unigrams)
            files.write_json(os.path.join(output, MANIFEST), manifest)
    except BaseException:
        remove_data_sets(outputs)
        raise


def remove_data_sets(directories: Iterable[str]) -> None:
    """Removes the files of the data sets in directories."""
    for directory in directories:
        for path in find_data_set(directory):
            storage.remove(path)


def remove_shards(output_dir: str) -> None:
    """Removes the shards that a data set was merged from."""
    with contextlib.suppress(FileNotFoundError):
        storage.remove(os.path.join(output_dir, SHARDS_DIRECTORY))
