"""What training needs of a corpus: opened if it is there, built if it is not.

Only one process may prepare a data directory: under several workers the chief
does, and the others after it.
"""

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

from electra_tf.configure_pretraining import CorpusConfig, PretrainingConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.model.vocabulary_learner import learn_vocabulary
from electra_tf.pretrain import corpus, dataset_builder
from electra_tf.pretrain.dataset_builder import Progress
from electra_tf.pretrain.records import Records, find
from electra_tf.util import console, files
from electra_tf.util.errors import UserError

DEFAULT_VOCAB_SIZE = 30522
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
      The vocabulary, the records to train on, and the held-out ones or None.

    Raises:
      UserError: if something is missing and there is no corpus to build it
        from, or if what is there does not fit.
    """
    patterns = config.pretrain_tfrecords
    if find(patterns):
        vocabulary = _open_vocabulary(config)
        if config.corpus.corpus:
            log("The records are there already: --corpus is not read.")
    elif config.corpus.corpus and not config.data.pretrain_tfrecords:
        if not os.path.exists(config.vocab_file):
            build_vocabulary(config.corpus, config.vocab_file, log=log)
        vocabulary = _open_vocabulary(config)
        output_dir = os.path.dirname(patterns)
        build_records(
            config.corpus,
            vocabulary,
            output_dir,
            num_processes=config.runtime.num_processes,
            log=log,
        )
    else:
        raise UserError(
            f"Training needs records. Received: {patterns!r}, which matches no "
            "file. Name a corpus to build them from: --corpus=demo for a first "
            'try, or text files, as in --corpus="books/*.txt"; or name records '
            "with --pretrain_tfrecords."
        )
    train = Records.open(patterns, config.corpus, vocabulary)
    log(f"Training records: {train.num_records:,} in {patterns}")
    return vocabulary, train, _open_held_out(config, vocabulary, log)


def build_vocabulary(
    config: CorpusConfig, vocab_file: str, *, log: Log = console.say
) -> Vocabulary:
    """Learns the vocabulary of a corpus and writes it.

    Args:
      config: the corpus, the letter case, and the size to aim at.
      vocab_file: where to write it; must not exist.
      log: told what is done.

    Returns:
      The vocabulary; a small corpus may not have as many tokens as asked for.

    Raises:
      UserError: if the file exists or the corpus cannot be read.
    """
    if os.path.exists(vocab_file):
        raise UserError(
            "A vocabulary is never overwritten, as data sets and models depend "
            f"on it. Received: vocab_file={vocab_file!r}, which exists. Name "
            "another file or delete it."
        )
    files.ensure_writable(os.path.dirname(vocab_file) or ".")
    vocab_size = config.vocab_size or DEFAULT_VOCAB_SIZE
    log(f"Learning a vocabulary of {vocab_size:,} tokens.")
    start = time.monotonic()
    statistics = corpus.Statistics()
    documents = corpus.documents(
        corpus.expand(config.corpus, tfds_data_dir=config.tfds_data_dir),
        blanks_separate_docs=config.blanks_separate_docs,
        statistics=statistics,
        options=corpus.Options.of(config),
    )
    tokens = learn_vocabulary(
        itertools.chain.from_iterable(documents),
        vocab_size=vocab_size,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
    )
    files.atomic_write_text(vocab_file, "\n".join(tokens) + "\n")
    rate = _rate(statistics.text_bytes, start)
    log(f"Learned {len(tokens):,} tokens from {rate}: {vocab_file}")
    return Vocabulary.from_file(vocab_file)


def build_records(
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
    *,
    overwrite: bool = False,
    num_processes: int = 1,
    log: Log = console.say,
) -> dict[str, Any]:
    """Builds a data set, saying how it goes and what came of it.

    Args:
      config: the corpus and how to pack it.
      vocabulary: of its tokens.
      output_dir: where the files go.
      overwrite: whether to replace a data set that lies there.
      num_processes: that build at the same time; 0 for one a core.
      log: told about it.

    Returns:
      The manifest.
    """
    log(f"Building records in {output_dir}")
    start = time.monotonic()
    manifest = dataset_builder.build(
        config,
        vocabulary,
        output_dir=output_dir,
        overwrite=overwrite,
        num_processes=num_processes,
        report=_ProgressLog(log, start),
    )
    log(f"Built from {_rate(manifest['counts']['text_bytes'], start)}:")
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
    return text


def _open_vocabulary(config: PretrainingConfig) -> Vocabulary:
    vocabulary = Vocabulary.from_file(config.vocab_file)
    limit = config.corpus.vocab_size
    if limit and vocabulary.size > limit:
        raise UserError(
            f"`vocab_size` must be at least {vocabulary.size}, the tokens of "
            f"{config.vocab_file}. Received: vocab_size={limit}. Leave it out "
            "to take the file as it is, or name another --vocab_file."
        )
    return vocabulary


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
    """Says from time to time how far a build has come."""

    def __init__(self, log: Log, start: float) -> None:
        self._log = log
        self._start = start
        self._next = start + SECONDS_BETWEEN_LOGS

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        num_bytes = progress.num_bytes - progress.bytes_before
        if not num_bytes:
            self._start = now  # processes take seconds to start
        if now < self._next or not num_bytes:
            return
        self._next = now + SECONDS_BETWEEN_LOGS
        text = f"{progress.num_documents:,} documents, "
        text += _rate(num_bytes, self._start)
        if progress.bytes_before:
            text += f" after {progress.bytes_before / 1e6:.1f} MB before"
        left = progress.total_bytes - progress.num_bytes
        if left > 0:
            seconds = left / num_bytes * (now - self._start)
            text += f", about {_duration(seconds)} left"
        self._log(text)


def _rate(num_bytes: int, start: float) -> str:
    seconds = time.monotonic() - start
    size = num_bytes / 1e6
    return f"{size:.1f} MB in {seconds:.1f} s ({size / seconds:.2f} MB/s)"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
