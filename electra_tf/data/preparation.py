"""The vocabulary and records of a run: opened, or built if they are missing.

Only one process at a time may prepare a data directory: of several workers the
chief goes first, and the others follow.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple

from etils import epath

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data import records, vocabularies
from electra_tf.data.build import LocalEngine, build_records
from electra_tf.data.reading import Records
from electra_tf.data.records import REBUILD
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files
from electra_tf.util.errors import UserError


class Prepared(NamedTuple):
    vocabulary: Vocabulary
    train: Mapping[int, Records]
    held_out: Records | None


def prepare(
    config: PretrainingConfig,
    *,
    initial_vocabulary: Vocabulary | None = None,
) -> Prepared:
    """Opens the vocabulary and the records of a run, or builds them."""
    corpus = config.corpus
    if not _has_records(config):
        _build(config, initial_vocabulary)
    elif corpus.corpus:
        console.say("The records exist already: --corpus is not read.")
        directory = os.path.dirname(files.find(config.pretrain_tfrecords)[0])
        built = records.stored_manifest(directory).get("corpus")
        if built and [*built] != [*corpus.corpus]:
            console.warn(
                f"The run trains on records of the corpus {','.join(built)}, "
                f"not of --corpus. Name another --data_dir, or {REBUILD}."
            )
    vocabulary = vocabularies.open_vocabulary(corpus, config.vocab_file)
    train, held_out = {}, None
    for data_set in corpus.data_sets:
        patterns = config.pretrain_tfrecords_of(data_set)
        opened = Records.open(patterns, data_set, vocabulary)
        console.say(f"Training records: {opened.num_records:,} in {patterns}")
        train[data_set.max_seq_length] = opened
    records.check_builds({n: train[n].directories for n in train}, corpus)
    patterns = config.eval_tfrecords
    if files.find(patterns) or config.training.eval_tfrecords:
        held_out = Records.open(patterns, data_set, vocabulary)
        console.say(f"Held-out records: {held_out.num_records:,} in {patterns}")
    masking, generator = config.masking, config.objective.generator_type
    if "unigram" in (masking.masking_strategy, generator):
        counts = records.read_unigram_counts(opened.directories, vocabulary)
        vocabulary = dataclasses.replace(vocabulary, counts=counts)
    return Prepared(vocabulary, train, held_out)


def _has_records(config: PretrainingConfig) -> bool:
    can_build = config.corpus.corpus and not config.training.pretrain_tfrecords
    if can_build and any(map(records.is_half_built, config.records_dirs)):
        return False
    patterns = map(config.pretrain_tfrecords_of, config.corpus.data_sets)
    return all(map(files.find, patterns))


def _build(
    config: PretrainingConfig, initial_vocabulary: Vocabulary | None
) -> None:
    """Builds the records, and their vocabulary if it is missing."""
    corpus, vocab_file = config.corpus, config.vocab_file
    if not corpus.corpus or config.training.pretrain_tfrecords:
        raise UserError(
            f"No records match {config.pretrain_tfrecords}: set --corpus=demo "
            "or --corpus='books/*.txt' to build them."
        )
    if epath.Path(vocab_file).exists():
        console.say(f"The vocabulary exists already: {vocab_file}.")
    elif initial_vocabulary is not None and not corpus.vocab_file:
        vocabularies.copy_vocabulary(initial_vocabulary, corpus, vocab_file)
    else:
        vocabularies.build_vocabulary(
            corpus, vocab_file, leave_out=config.outputs
        )
    build_records(
        corpus,
        vocabularies.open_vocabulary(corpus, vocab_file),
        output_dir=config.records_dir,
        leave_out=config.outputs,
        engine=LocalEngine(config.runtime.num_processes),
    )
