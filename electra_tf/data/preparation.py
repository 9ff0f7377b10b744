"""The vocabulary and records of a run: opened, or built if they are missing.

Only one process may prepare a data directory: under several workers the chief
does, and the others after it.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.configure_pretraining import CorpusConfig, PretrainingConfig
from electra_tf.data import dataset_builder
from electra_tf.data.dataset_builder import Progress
from electra_tf.data.dataset_files import (
    MANIFEST,
    check_choices,
    read_unigram_counts,
)
from electra_tf.data.records import Records, find
from electra_tf.data.runners import LocalRunner, Runner
from electra_tf.data.vocabularies import build_vocabulary, open_vocabulary
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files, storage
from electra_tf.util.errors import UserError

SECONDS_BETWEEN_LOGS = 10
MAX_RATIO = 2  # of the share of records held out to its target, either way
BYTES_TO_ANNOUNCE = 2**26  # of records: some seconds of checking

_RECORDS = (
    "{records:,} records of {lengths} tokens, {padding_share:.1%} padding\n"
    "  {held_out_records:,} of them held out; {tokens_kept:,} tokens kept, "
    "{tokens_dropped:,} dropped"
)
_LEFT_OUT = {
    "binary_lines": "lines as binary",
    "bad_json_lines": "lines as bad JSON",
    "skipped_members": "archived files as links, hidden, unsafe or no text",
    "oversized_members": "archived files as too large",
    "duplicate_documents": "documents as duplicates",
    "duplicate_bytes": "bytes of duplicates",
}
Log = Callable[[str], None]


class Prepared(NamedTuple):
    """The vocabulary and the records of a run.

    Attributes:
      vocabulary: with its counts if the run needs them.
      train: the records of each data set, by their `max_seq_length`.
      held_out: records of the longest `max_seq_length`, or None.
    """

    vocabulary: Vocabulary
    train: Mapping[int, Records]
    held_out: Records | None


def prepare(config: PretrainingConfig, *, log: Log = console.say) -> Prepared:
    """Opens the vocabulary and the records of a run, building what is missing.

    Records are built from `--corpus` only where `--pretrain_tfrecords` is not
    given and none lie in the data directory; so is the vocabulary.

    Args:
      config: of the run.
      log: receives lines on what is done.

    Raises:
      UserError: if something is missing and there is no corpus to build it
        from, or if what is there does not fit.
    """
    vocabulary = _ensure_records(config, log)
    train = {}
    for data_set in config.corpus.data_sets:
        patterns = config.pretrain_tfrecords_of(data_set)
        _announce_check(patterns, log)
        records = Records.open(
            patterns,
            data_set,
            vocabulary,
            skip_corrupt_records=config.runtime.skip_corrupt_records,
        )
        check_choices(records.directories, data_set)
        log(f"Training records: {records.num_records:,} in {patterns}")
        train[data_set.max_seq_length] = records
    if config.needs_unigram_counts:
        longest = train[config.corpus.max_seq_length]
        counts = read_unigram_counts(longest.directories, vocabulary)
        vocabulary = dataclasses.replace(vocabulary, counts=counts)
    return Prepared(vocabulary, train, _open_held_out(config, vocabulary, log))


def _ensure_records(config: PretrainingConfig, log: Log) -> Vocabulary:
    """Builds the records if they are missing; returns their vocabulary."""
    if _has_records(config):
        if config.corpus.corpus:
            log("The records are there already: --corpus is not read.")
        return open_vocabulary(config.corpus, config.vocab_file)
    if not config.corpus.corpus or config.data.pretrain_tfrecords:
        raise UserError(
            f"Training needs records. Received: {config.pretrain_tfrecords!r}, "
            "which matches no file. Name a corpus to build them from: "
            "--corpus=demo for a first try, or text files, as in "
            '--corpus="books/*.txt"; or name records with '
            "--pretrain_tfrecords."
        )
    if not storage.exists(config.vocab_file):
        build_vocabulary(config.corpus, config.vocab_file, log=log)
    vocabulary = open_vocabulary(config.corpus, config.vocab_file)
    build_records(
        config.corpus,
        vocabulary,
        config.records_dir,
        runner=LocalRunner(config.runtime.num_processes),
        log=log,
    )
    return vocabulary


def _has_records(config: PretrainingConfig) -> bool:
    """Returns whether the data sets are there: all of them or none."""
    globs = {
        data_set.max_seq_length: config.pretrain_tfrecords_of(data_set)
        for data_set in config.corpus.data_sets
    }
    missing = [length for length in globs if not find(globs[length])]
    there = [length for length in globs if length not in missing]
    if there and missing:
        raise UserError(
            "There must be records of each length in `seq_length_phases`. "
            f"Received: those of {there[0]} tokens in {globs[there[0]]!r} but "
            f"none of {missing[0]} in {globs[missing[0]]!r}. Build all of them "
            "in one pass with `python -m electra_tf.build_pretraining_dataset "
            f"--seq_length_phases={config.corpus.seq_length_phases} "
            "--overwrite`, or move those that are there elsewhere."
        )
    return not missing


def build_records(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
    *,
    overwrite: bool = False,
    runner: Runner,
    log: Log = console.say,
) -> dict[str, Any]:
    """Builds the data sets of a corpus and logs the progress.

    Args:
      config: the corpus and how to pack it.
      vocabulary: of its tokens.
      output_dir: where the files go, see `dataset_builder.build`.
      overwrite: whether to replace a data set that lies there.
      runner: of the build.
      log: receives lines on the progress.

    Returns:
      The manifest of the data set with the longest rows.
    """
    outputs = [config.directory_of(c, output_dir) for c in config.data_sets]
    log(f"Building records in {', '.join(outputs)}")
    start = time.monotonic()
    progress = _ProgressLog(log, start)
    manifest = dataset_builder.build(
        config,
        vocabulary,
        output_dir=output_dir,
        overwrite=overwrite,
        runner=runner,
        report=progress,
    )
    num_bytes = manifest["counts"]["text_bytes"]
    log(_built_from(num_bytes, progress.bytes_before, start))
    paths = (os.path.join(output, MANIFEST) for output in outputs)
    log(summary([files.read_json(path) for path in paths]))
    _check_held_out(manifest)
    return manifest


def _built_from(num_bytes: int, bytes_before: int, start: float) -> str:
    """Returns a line on the text read, now and by a build that was stopped."""
    rate = console.rate(num_bytes - bytes_before, start)
    if not bytes_before:
        return f"Built from {rate}:"
    return (
        f"Built from {num_bytes / 1e6:.1f} MB, {bytes_before / 1e6:.1f} MB of "
        f"them by an earlier build that was stopped, and now {rate}:"
    )


def _check_held_out(manifest: Mapping[str, Any]) -> None:
    """Warns where the share of records held out is far from the target."""
    target, counts = manifest["held_out_fraction"], manifest["counts"]
    share = counts["held_out_records"] / counts["records"]
    if target and not target / MAX_RATIO <= share <= target * MAX_RATIO:
        console.warn(
            f"{share:.2%} of the records are held out where held_out_fraction="
            f"{target} asks for {target:.2%}: documents stay whole, and there "
            f"are {counts['documents']:,}."
        )


def summary(manifests: Sequence[dict[str, Any]]) -> str:
    """Returns lines on what became of a corpus.

    Args:
      manifests: of its data sets, which agree on what was read.
    """
    text = "\n".join(map(_records_made, manifests))
    manifest = manifests[-1]
    counts = manifest["counts"]
    text += f"\n{counts['documents']:,} documents, {counts['tokens_read']:,} "
    text += f"tokens; held out: {counts['held_out_documents']:,} documents"
    if counts["cut_documents"]:
        text += f"\ncut: {counts['cut_documents']:,} times, in documents that "
        text += "are too long"
        if counts["held_out_documents"]:
            text += "; a piece may be held out\n  where others of its document "
            text += "are trained on"
    for name, what in _LEFT_OUT.items():
        if counts[name]:
            text += f"\nleft out: {counts[name]:,} {what}"
    if counts["replaced_bytes"]:
        text += f"\nreplaced: {counts['replaced_bytes']:,} bytes, not UTF-8"
    return f"{text}\n{length_table(manifest['document_tokens'])}"


def length_table(summaries: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the lengths of the documents of splits as a table.

    Args:
      summaries: name of a split -> `Lengths.summary` of its documents.
    """
    lowers = {int(n) for each in summaries.values() for n in each["histogram"]}
    rows = [("tokens in a document", *summaries)]
    for lower in sorted(lowers):
        numbers = (
            s["histogram"].get(str(lower), 0) for s in summaries.values()
        )
        name = f"{lower:,} to {2 * lower - 1:,}" if lower > 1 else str(lower)
        rows.append((name, *(f"{number:,}" for number in numbers)))
    for name in ("mean", "min", "max"):
        values = (each[name] for each in summaries.values())
        rows.append((name, *("-" if v is None else f"{v:,}" for v in values)))
    return "\n".join(
        f"{name:<24}" + "".join(f"{cell:>14}" for cell in cells)
        for name, *cells in rows
    )


def _records_made(manifest: dict[str, Any]) -> str:
    rows = [*manifest["length_buckets"], manifest["max_seq_length"]]
    return _RECORDS.format(
        lengths="/".join(map(str, rows)), **manifest["counts"]
    )


def _open_held_out(
    config: PretrainingConfig, vocabulary: Vocabulary, log: Log
) -> Records | None:
    patterns = config.eval_tfrecords
    if not find(patterns) and not config.data.eval_tfrecords:
        return None
    longest = config.corpus.data_sets[-1]
    _announce_check(patterns, log)
    records = Records.open(patterns, longest, vocabulary)
    log(f"Held-out records: {records.num_records:,} in {patterns}")
    return records


def _announce_check(patterns: str, log: Log) -> None:
    """Logs the check of the records, where it takes a while."""
    num_bytes = sum(map(storage.size, find(patterns)))
    if num_bytes >= BYTES_TO_ANNOUNCE:
        log(f"Checking {num_bytes / 1e6:,.0f} MB of records in {patterns}")


class _ProgressLog:
    """Logs the progress of a build from time to time.

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
        if progress.total_records:
            text = f"Writing: {progress.num_records:,} of "
            text += f"{progress.total_records:,} records"
        else:
            text = self._text(progress, now)
        if now >= self._next and text:
            self._next = now + SECONDS_BETWEEN_LOGS
            self._log(text)

    def _text(self, progress: Progress, now: float) -> str:
        """Returns a line on the text read so far; "" if none was."""
        self.bytes_before = progress.bytes_before
        num_bytes = progress.num_bytes - progress.bytes_before
        if not num_bytes or progress.is_search != self._is_search:
            self._start = now  # processes take seconds to start
            self._is_search = progress.is_search
        if now < self._next or not num_bytes:
            return ""
        text = "Looking for duplicates: " if progress.is_search else ""
        text += f"{progress.num_documents:,} documents, "
        text += console.rate(num_bytes, self._start)
        if progress.bytes_before:
            text += f" after {progress.bytes_before / 1e6:.1f} MB before"
        left = progress.total_bytes - progress.num_bytes
        if left > 0:
            seconds = left / num_bytes * (now - self._start)
            text += f", about {_duration(seconds)} left"
        return text


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
