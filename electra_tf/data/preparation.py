"""The vocabulary and records of a run: opened, or built if they are missing.

Only one process at a time may prepare a data directory: of several workers the
chief goes first, and the others follow.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.build import LocalEngine, Log, build_records
from electra_tf.data.reading import Records, find
from electra_tf.data.records import (
    REBUILD,
    check_build_settings,
    check_same_build,
    is_half_built,
    read_unigram_counts,
    stored_manifest,
)
from electra_tf.data.vocabularies import (
    build_vocabulary,
    copy_vocabulary,
    open_vocabulary,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, storage
from electra_tf.util.errors import UserError


class Prepared(NamedTuple):
    """The vocabulary and the records of a run."""

    vocabulary: Vocabulary
    train: Mapping[int, Records]
    held_out: Records | None


def prepare(
    config: PretrainingConfig,
    *,
    initial_vocabulary: Vocabulary | None = None,
    log: Log = console.say,
) -> Prepared:
    """Opens the vocabulary and the records of a run, building what is
    missing."""
    vocabulary = _ensure_records(config, initial_vocabulary, log)
    train = {}
    for data_set in config.corpus.data_sets:
        patterns = config.pretrain_tfrecords_of(data_set)
        records = Records.open(
            patterns,
            data_set,
            vocabulary,
        )
        check_build_settings(records.directories, data_set)
        log(f"Training records: {records.num_records:,} in {patterns}")
        train[data_set.max_seq_length] = records
    check_same_build({n: train[n].directories for n in train})
    if config.needs_unigram_counts:
        longest = train[config.corpus.max_seq_length]
        counts = read_unigram_counts(longest.directories, vocabulary)
        vocabulary = dataclasses.replace(vocabulary, counts=counts)
    return Prepared(vocabulary, train, _open_held_out(config, vocabulary, log))


def find_corpus(config: PretrainingConfig) -> list[str]:
    """Returns the corpus of a run's records, which may not be built yet."""
    if not (paths := find(config.pretrain_tfrecords)):
        return [*config.corpus.corpus]
    return [*stored_manifest(os.path.dirname(paths[0])).get("corpus", ())]


def _ensure_records(
    config: PretrainingConfig, initial_vocabulary: Vocabulary | None, log: Log
) -> Vocabulary:
    """Builds the records if they are missing; returns their vocabulary."""
    if _has_records(config):
        if config.corpus.corpus:
            log("The records exist already: --corpus is not read.")
            _check_corpus(config)
        return open_vocabulary(config.corpus, config.vocab_file)
    if not config.corpus.corpus or config.data.pretrain_tfrecords:
        raise UserError(
            f"Training needs records. Received: {config.pretrain_tfrecords!r}, "
            "which matches no file. Name a corpus to build them from: "
            "--corpus=demo for a first try, or text files, as in "
            '--corpus="books/*.txt"; or name records with '
            "--pretrain_tfrecords."
        )
    if storage.exists(config.vocab_file):
        log(f"The vocabulary exists already: {config.vocab_file}.")
    elif initial_vocabulary is not None and not config.corpus.vocab_file:
        copy_vocabulary(
            initial_vocabulary, config.corpus, config.vocab_file, log=log
        )
    else:
        build_vocabulary(
            config.corpus,
            config.vocab_file,
            leave_out=config.outputs,
            log=log,
        )
    vocabulary = open_vocabulary(config.corpus, config.vocab_file)
    build_records(
        config.corpus,
        vocabulary,
        output_dir=config.records_dir,
        leave_out=config.outputs,
        engine=LocalEngine(config.runtime.num_processes),
        log=log,
    )
    return vocabulary


def _check_corpus(config: PretrainingConfig) -> None:
    """Warns if the records are of another corpus than the run names."""
    given, found = [*config.corpus.corpus], find_corpus(config)
    if found and found != given:
        console.warn(
            f"The records are of the corpus {','.join(found)}, not of "
            f"--corpus={','.join(given)}: the run trains on the former. Name "
            f"another --data_dir, or build the records again with {REBUILD}."
        )


def _has_records(config: PretrainingConfig) -> bool:
    """Returns whether the data sets exist; refuses a part of them."""
    can_build = config.corpus.corpus and not config.data.pretrain_tfrecords
    if can_build and any(map(is_half_built, config.records_dirs)):
        return False
    globs = {
        data_set.max_seq_length: config.pretrain_tfrecords_of(data_set)
        for data_set in config.corpus.data_sets
    }
    missing = [length for length in globs if not find(globs[length])]
    existing = [length for length in globs if length not in missing]
    if existing and missing:
        raise UserError(
            "There must be records of each length in `seq_length_phases`. "
            f"Received: those of {existing[0]} tokens in "
            f"{globs[existing[0]]!r} but none of {missing[0]} in "
            f"{globs[missing[0]]!r}. Build all of them in one pass with "
            "`python -m electra_tf.build_pretraining_dataset "
            f"--seq_length_phases={config.corpus.seq_length_phases} "
            "--overwrite`, or move the existing ones elsewhere."
        )
    return not missing


def _open_held_out(
    config: PretrainingConfig, vocabulary: Vocabulary, log: Log
) -> Records | None:
    patterns = config.eval_tfrecords
    if not find(patterns) and not config.data.eval_tfrecords:
        return None
    records = Records.open(
        patterns,
        config.corpus.data_sets[-1],
        vocabulary,
    )
    log(f"Held-out records: {records.num_records:,} in {patterns}")
    return records
