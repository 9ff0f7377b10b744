"""What training needs of a corpus: opened if it is there, built if it is not.

Only one process may prepare a data directory: under several workers the chief
does, and the others after it.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

from electra_tf.configure_pretraining import CorpusConfig, PretrainingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import dataset_builder, lengths, unigram_counts
from electra_tf.pretrain.engines import Engine, LocalEngine, Progress
from electra_tf.pretrain.records import Records, find
from electra_tf.pretrain.vocabularies import build_vocabulary, open_vocabulary
from electra_tf.util import console, storage
from electra_tf.util.errors import UserError

SECONDS_BETWEEN_LOGS = 10

_SUMMARY = (
    "{records:,} records of {length} tokens, {padding_share:.1%} padding\n"
    "{documents:,} documents, {tokens_read:,} tokens: {tokens_kept:,} kept, "
    "{tokens_dropped:,} dropped\n"
    "held out: {held_out_documents:,} documents, {held_out_records:,} records"
)
_LEFT_OUT = {
    "binary_lines": "lines as binary",
    "bad_json_lines": "lines as bad JSON",
    "skipped_members": "archived files as links, hidden or unsafe",
    "oversized_members": "archived files as too large",
    "duplicate_documents": "documents as duplicates",
    "duplicate_bytes": "bytes of duplicates",
}

Log = Callable[[str], None]


def prepare(
    config: PretrainingConfig, *, log: Log = console.say
) -> tuple[Vocabulary, Records, Records | None]:
    """Opens the vocabulary and the records of a run, building what is missing.

    Records are built from `--corpus` only where `--pretrain_tfrecords` is not
    given and none lie in the data directory; so is the vocabulary.

    Args:
      config: of the run.
      log: told what is done.

    Returns:
      The vocabulary, with its counts if the run needs them; the records to
      train on; and the held-out ones or None.

    Raises:
      UserError: if something is missing and there is no corpus to build it
        from, or if what is there does not fit.
    """
    patterns = config.pretrain_tfrecords
    if find(patterns):
        vocabulary = open_vocabulary(config.corpus, config.vocab_file)
        if config.corpus.corpus:
            log("The records are there already: --corpus is not read.")
    elif config.corpus.corpus and not config.data.pretrain_tfrecords:
        if not storage.exists(config.vocab_file):
            build_vocabulary(config.corpus, config.vocab_file, log=log)
        vocabulary = open_vocabulary(config.corpus, config.vocab_file)
        output_dir = os.path.dirname(patterns)
        build_records(
            config.corpus,
            vocabulary,
            output_dir,
            engine=LocalEngine(config.runtime.num_processes),
            log=log,
        )
    else:
        raise UserError(
            f"Training needs records. Received: {patterns!r}, which matches no "
            "file. Name a corpus to build them from: --corpus=demo for a first "
            'try, or text files, as in --corpus="books/*.txt"; or name records '
            "with --pretrain_tfrecords."
        )
    train = Records.open(
        patterns,
        config.corpus,
        vocabulary,
        skip_corrupt_records=config.runtime.skip_corrupt_records,
    )
    log(f"Training records: {train.num_records:,} in {patterns}")
    if config.needs_unigram_counts:
        counts = unigram_counts.read(train, vocabulary)
        vocabulary = dataclasses.replace(vocabulary, counts=counts)
    return vocabulary, train, _open_held_out(config, vocabulary, log)


def build_records(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
    *,
    overwrite: bool = False,
    engine: Engine,
    log: Log = console.say,
) -> dict[str, Any]:
    """Builds a data set, saying how it goes and what came of it.

    Args:
      config: the corpus and how to pack it.
      vocabulary: of its tokens.
      output_dir: where the files go.
      overwrite: whether to replace a data set that lies there.
      engine: that builds.
      log: told about it.

    Returns:
      The manifest.
    """
    log(f"Building records in {output_dir}")
    start = time.monotonic()
    progress = _ProgressLog(log, start)
    manifest = dataset_builder.build(
        config,
        vocabulary,
        output_dir=output_dir,
        overwrite=overwrite,
        engine=engine,
        report=progress,
    )
    num_bytes = manifest["counts"]["text_bytes"] - progress.bytes_before
    log(f"Built from {console.rate(num_bytes, start)}:")
    log(summary(manifest))
    return manifest


def summary(manifest: dict[str, Any]) -> str:
    """Says what became of a corpus.

    Args:
      manifest: of its data set.
    """
    counts = manifest["counts"]
    text = _SUMMARY.format(length=manifest["max_seq_length"], **counts)
    for name, what in _LEFT_OUT.items():
        if counts[name]:
            text += f"\nleft out: {counts[name]:,} {what}"
    if counts["replaced_bytes"]:
        text += f"\nreplaced: {counts['replaced_bytes']:,} bytes, not UTF-8"
    return f"{text}\n{lengths.table(manifest['document_tokens'])}"


def _open_held_out(
    config: PretrainingConfig, vocabulary: Vocabulary, log: Log
) -> Records | None:
    patterns = config.eval_tfrecords
    if not find(patterns) and not config.data.eval_tfrecords:
        return None
    records = Records.open(patterns, config.corpus, vocabulary)
    log(f"Held-out records: {records.num_records:,} in {patterns}")
    return records


class _ProgressLog:
    """Says from time to time how far a build has come.

    Attributes:
      bytes_before: of text, read by an earlier build.
    """

    def __init__(self, log: Log, start: float) -> None:
        self.bytes_before = 0
        self._log = log
        self._start = start
        self._next = start + SECONDS_BETWEEN_LOGS
        self._is_search = False

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        self.bytes_before = progress.bytes_before
        num_bytes = progress.num_bytes - progress.bytes_before
        if not num_bytes or progress.is_search != self._is_search:
            self._start = now  # processes take seconds to start
            self._is_search = progress.is_search
        if now < self._next or not num_bytes:
            return
        self._next = now + SECONDS_BETWEEN_LOGS
        text = "Looking for duplicates: " if progress.is_search else ""
        text += f"{progress.num_documents:,} documents, "
        text += console.rate(num_bytes, self._start)
        if progress.bytes_before:
            text += f" after {progress.bytes_before / 1e6:.1f} MB before"
        left = progress.total_bytes - progress.num_bytes
        if left > 0:
            seconds = left / num_bytes * (now - self._start)
            text += f", about {_duration(seconds)} left"
        self._log(text)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
