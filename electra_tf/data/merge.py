"""From the parts of a corpus to its data sets: the end of a build.

The records of the parts are dealt out to the files of the data sets, and these
get their names when all of them are complete.
"""

import collections
import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, held_out, unigram_counts
from electra_tf.data import shards as parts_lib
from electra_tf.data.engines import Engine, Report
from electra_tf.data.lengths import Lengths
from electra_tf.data.record_format import (
    FORMAT_VERSION,
    HELD_OUT,
    MANIFEST,
    PARTS,
    PREFIXES,
    TRAIN,
    UNIGRAM_COUNTS,
    Kind,
    ShardWriter,
    find_data_set,
    kinds,
)
from electra_tf.data.shards import Part, Summary
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

SHARD_BYTES = 16 * 2**20  # a shard is about as large as its text
MAX_SHARDS = 512  # all are open at once


class _Made(NamedTuple):
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
    writers: list[ShardWriter]


def assemble(
    parts: list[Part],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    output_dir: str,
    engine: Engine,
    report: Report = lambda _: None,
) -> dict[str, Any]:
    """Makes the data sets of their parts.

    Args:
      parts: of the corpus, done.
      config: of the corpus.
      vocabulary: of its tokens.
      output_dir: of the data set with the longest rows.
      engine: deals the records out.
      report: called now and then.

    Returns:
      Its manifest.

    Raises:
      UserError: if the corpus gives no record for training.
    """
    total = _Total(config)
    for part in parts:
        total.add(Summary.of(part))
    if waiting := held_out.decide(total.waiting, total.splits):
        rest = parts_lib.build_of_documents(
            waiting, config, vocabulary, output_dir
        )
        parts = [*parts, rest]
        total.add(Summary.of(rest))
    with contextlib.ExitStack() as stack:
        made = []
        for number, data_set in enumerate(config.data_sets):
            try:
                counts = _counts(total.read, total.packed[number], data_set)
            except UserError:
                remove_parts(output_dir)  # this text gives nothing
                raise
            output = config.directory_of(data_set, output_dir)
            writers = _writers(data_set, output, total.read.text_bytes, stack)
            numbers = {kind: total.records[kind] for kind in writers}
            engine.deal_out(parts, writers, numbers, report)
            for writer in writers.values():
                writer.close()
            unigrams = total.unigrams[number]
            counts["train_tokens"] = sum(unigrams)
            manifest = _settings(data_set, vocabulary) | {
                "counts": counts,
                "document_tokens": total.document_tokens,
            }
            made.append(_Made(output, manifest, unigrams, [*writers.values()]))
        _publish(made)
    return made[-1].manifest


class _Total:
    """What became of the text of all parts.

    Attributes:
      read: the statistics of the reading.
      packed: the counts of each data set.
      records: of each kind, in each part.
      lengths: of the documents of each split.
      splits: that have documents.
      waiting: documents whose split depends on all others.
    """

    def __init__(self, config: CorpusConfig) -> None:
        num_data_sets = len(config.data_sets)
        self.read = corpus.Statistics()
        self.packed = [collections.Counter() for _ in range(num_data_sets)]
        self.records: dict[Kind, list[int]] = {k: [] for k in kinds(config)}
        self.lengths = {split: Lengths() for split in PREFIXES}
        self.splits: set[str] = set()
        self.waiting: list[held_out.Document] = []
        self._unigrams = [np.zeros(1, np.int64)] * num_data_sets

    @property
    def unigrams(self) -> list[list[int]]:
        """How often each token occurs in the training records of each."""
        return [counts.tolist() for counts in self._unigrams]

    @property
    def document_tokens(self) -> dict[str, Any]:
        """The lengths of the documents of each split, as JSON values."""
        return {split: each.summary() for split, each in self.lengths.items()}

    def add(self, summary: Summary) -> None:
        """Adds a part."""
        self.read.add(corpus.Statistics(**summary.statistics))
        for number, packed in enumerate(summary.packed):
            self.packed[number].update(packed.counts)
            self._unigrams[number] = self._unigrams[number] + packed.unigrams
        for kind, numbers in self.records.items():
            numbers.append(summary.num_records(kind))
        for split, lengths in summary.lengths.items():
            self.lengths[split].add(lengths)
        self.splits.update(summary.splits)
        self.waiting += summary.waiting


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


def _numbers_of_shards(config: CorpusConfig, num_bytes: int) -> dict[str, int]:
    num_train = config.num_shards or min(
        MAX_SHARDS, 1 + num_bytes // SHARD_BYTES
    )
    num_held_out = max(1, round(num_train * config.held_out_fraction))
    return {TRAIN: num_train, HELD_OUT: num_held_out}


def _settings(config: CorpusConfig, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "vocab_sha256": vocabulary.sha256,
        "vocab_size": vocabulary.size,
        "tokenizer": vocabulary.kind,
        "pad_vocab_to_multiple": config.pad_vocab_to_multiple,
        "do_lower_case": config.do_lower_case,
        "strip_accents": config.strip_accents,
        "max_seq_length": config.max_seq_length,
        "length_buckets": list(config.row_lengths[:-1]),
        "packing": config.packing,
        "drop_duplicates": config.drop_duplicates,
        "split_sentences": config.split_sentences,
        "blanks_separate_docs": config.blanks_separate_docs,
        "held_out_fraction": config.held_out_fraction,
        "data_seed": config.data_seed,
        "corpus": list(config.corpus),
    }


def _writers(
    config: CorpusConfig,
    output_dir: str,
    num_text_bytes: int,
    stack: contextlib.ExitStack,
) -> dict[Kind, ShardWriter]:
    """Opens what the records of each kind of a data set are written to."""
    numbers = _numbers_of_shards(config, num_text_bytes)
    numbers[TRAIN] = max(1, numbers[TRAIN] // len(config.row_lengths))
    writers = {}
    for kind in kinds(config):
        is_short = kind.length < config.max_seq_length
        writer = ShardWriter(
            output_dir,
            kind.split,
            numbers[kind.split],
            length=kind.length if is_short else None,
        )
        writers[kind] = stack.enter_context(writer)
    return writers


def _publish(made: Iterable[_Made]) -> None:
    """Puts the complete data sets in the place of older ones."""
    for data_set in made:
        remove_files(find_data_set(data_set.directory))
    try:
        for directory, manifest, unigrams, writers in made:
            manifest["files"] = [
                entry for writer in writers for entry in writer.publish()
            ]
            path = os.path.join(directory, UNIGRAM_COUNTS)
            files.atomic_write_text(path, unigram_counts.lines(unigrams))
            files.write_json(os.path.join(directory, MANIFEST), manifest)
    except BaseException:
        for data_set in made:
            remove_files(find_data_set(data_set.directory))
        raise


def remove_parts(output_dir: str) -> None:
    """Removes the parts of a data set."""
    with contextlib.suppress(FileNotFoundError):
        storage.remove(os.path.join(output_dir, PARTS))


def remove_files(paths: Iterable[str]) -> None:
    """Removes files and directories."""
    for path in paths:
        storage.remove(path)
