"""The files of a data set: names, manifest, unigram counts, record files.

The file `unigram_counts.txt` beside the manifest has the number of occurrences
of each token in the training records, one per line, in the order of the
vocabulary; special tokens other than [UNK] are not counted. It does not depend
on the number of threads or files.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.record_format import HELD_OUT, TRAIN, RecordKind
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
UNIGRAM_COUNTS = "unigram_counts.txt"
SHARDS_DIRECTORY = ".parts"
"""Directory of a data set's shards, inside the data set's directory."""
_PUBLISHING = "publishing"
"""File beside the shards, there while the data set is being published."""
PREFIXES = {TRAIN: "pretrain_data", HELD_OUT: "held_out_data"}
REBUILD = (
    "`python -m electra_tf.build_pretraining_dataset --overwrite` and the "
    "other flags of this run"
)
"""The command that replaces a data set that does not fit."""

_REQUIRED_SETTINGS = (
    "tokenizer",
    "pad_vocab_to_multiple",
    "vocab_size",
    "vocab_sha256",
    "max_seq_length",
    "length_buckets",
    "packing",
    "do_lower_case",
    "strip_accents",
)
_OPTIONAL_SETTINGS = (
    "blanks_separate_docs",
    "data_seed",
    "drop_duplicates",
    "held_out_fraction",
    "split_sentences",
)
_DEFAULTS = CorpusConfig()


def find_unfinished(directory: str) -> list[str]:
    """Returns the files and shards that a stopped build left in a directory."""
    unfinished = storage.find(directory, [".*.tfrecord-*.tmp"])
    return unfinished + storage.find(
        os.path.join(directory, SHARDS_DIRECTORY), ["*"]
    )


def begin_publishing(directories: Iterable[str]) -> None:
    """Marks the directories of data sets that are published together."""
    for directory in directories:
        shards = os.path.join(directory, SHARDS_DIRECTORY)
        storage.make_directories(shards)
        files.atomic_write_text(os.path.join(shards, _PUBLISHING), "")


def are_half_published(directories: Iterable[str]) -> bool:
    """Returns whether a build was stopped while it published data sets."""
    directories = [*directories]
    marks = os.path.join(SHARDS_DIRECTORY, _PUBLISHING)
    are_marked, are_complete = (
        all(storage.exists(os.path.join(d, name)) for d in directories)
        for name in (marks, MANIFEST)
    )
    return are_marked and not are_complete


def find_data_set(directory: str) -> list[str]:
    """Returns the files of a data set in a directory, its manifest first."""
    records = (f"{prefix}.tfrecord*" for prefix in PREFIXES.values())
    return storage.find(directory, [MANIFEST, UNIGRAM_COUNTS, *records])


def settings(config: CorpusConfig, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the settings of a data set for its manifest."""
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
        "corpus": list(config.corpus),
        **{name: getattr(config, name) for name in _OPTIONAL_SETTINGS},
    }


def read_manifest(
    directory: str, config: CorpusConfig, vocabulary: Vocabulary
) -> dict[str, Any] | None:
    """Reads the manifest of a data set and checks its settings."""
    path = os.path.join(directory, MANIFEST)
    if not storage.exists(path):
        _check_without_manifest(directory, config)
        return None
    manifest = files.read_object(path)
    if manifest.get("format_version") != FORMAT_VERSION:
        raise UserError(
            f"{path} must have format_version {FORMAT_VERSION}. Received: "
            f"{manifest.get('format_version')}. Build the data set again."
        )
    ours = settings(config, vocabulary)
    differing = [
        f"{name} is {manifest.get(name)} in the data set but {ours[name]} in "
        "this run"
        for name in _REQUIRED_SETTINGS
        if manifest.get(name) != ours[name]
    ]
    _refuse_differing(directory, "match this run", differing)
    return manifest


def _check_without_manifest(directory: str, config: CorpusConfig) -> None:
    """Checks that files without a manifest may be read."""
    if unfinished := find_unfinished(directory):
        raise UserError(
            "A data set must be complete. Received: "
            f"{unfinished[0]}, left by a build that was stopped. Build "
            f"it again with {REBUILD}, or name another --data_dir."
        )
    if config.length_buckets:
        raise UserError(
            "`length_buckets` needs records that were built with it. "
            f"Received: {directory}, which has no {MANIFEST}. Build the "
            "data set again, or drop --length_buckets."
        )


def check_build_settings(
    directories: Iterable[str], config: CorpusConfig
) -> None:
    """Checks that records were made with the settings that a run asks for."""
    for directory in sorted(set(directories)):
        if not (manifest := stored_manifest(directory)):
            continue
        is_same_corpus = list(config.corpus) == manifest.get("corpus")
        differing = [
            f"{name} is {manifest[name]} in the data set but {value} in this "
            "run"
            for name in _OPTIONAL_SETTINGS
            if (value := getattr(config, name)) != manifest.get(name, value)
            and (is_same_corpus or value != getattr(_DEFAULTS, name))
        ]
        _refuse_differing(
            directory, "be built with the settings of this run", differing
        )


def check_same_build(directories: Mapping[int, Iterable[str]]) -> None:
    """Checks that the data sets of a run are of one build, whatever its
    flags."""
    longest = max(directories)
    by_length = []
    for length, each in directories.items():
        # Those of `CorpusConfig.directory_of` sort as what they are made from.
        ending = "" if length == longest else f"_{length}"
        by_length.append(sorted({*each}, key=lambda x: x.removesuffix(ending)))
    first, *others = by_length
    pairs = (zip(first, other, strict=False) for other in others)
    for one, two in itertools.chain(*pairs):
        left, right = map(stored_manifest, (one, two))
        differing = [
            f"{name} is {left.get(name)} and {right.get(name)}"
            for name in ("corpus", *_OPTIONAL_SETTINGS)
            if left and right and left.get(name) != right.get(name)
        ]
        if differing:
            raise UserError(
                f"The data sets in {one} and {two} must be of one build. "
                f"Received: {'; '.join(differing)}. Build both again with "
                f"{REBUILD}."
            )


def stored_manifest(directory: str) -> dict[str, Any]:
    """Returns the manifest of a data set, unchecked; {} if it has none."""
    path = os.path.join(directory, MANIFEST)
    return files.read_object(path) if storage.exists(path) else {}


def _refuse_differing(directory: str, what: str, differing: list[str]) -> None:
    """Raises an error if settings differ."""
    if differing:
        raise UserError(
            f"The data set in {directory} must {what}. Received: "
            f"{'; '.join(differing)}. Change the flags to its values, "
            f"build it again with {REBUILD}, or name another --data_dir."
        )


def read_corpus(directory: str) -> list[str]:
    """Returns the corpus of a data set as it was named; [] if not known."""
    with files.naming_malformed_file(os.path.join(directory, MANIFEST)):
        return [*map(str, stored_manifest(directory).get("corpus", ()))]


def write_unigram_counts(directory: str, counts: Iterable[int]) -> None:
    """Writes the counts of the tokens, in the order of the vocabulary."""
    path = os.path.join(directory, UNIGRAM_COUNTS)
    files.atomic_write_text(path, "".join(f"{count}\n" for count in counts))


def read_unigram_counts(
    directories: Iterable[str], vocabulary: Vocabulary
) -> tuple[int, ...]:
    """Reads the counts of tokens in data sets."""
    each = [
        _read_unigram_counts(directory, vocabulary)
        for directory in sorted(set(directories))
    ]
    return tuple(map(sum, zip(*each, strict=True)))


def _read_unigram_counts(directory: str, vocabulary: Vocabulary) -> list[int]:
    path = os.path.join(directory, UNIGRAM_COUNTS)
    manifest = os.path.join(directory, MANIFEST)
    if not (storage.exists(path) and storage.exists(manifest)):
        raise UserError(
            "The data set must have the counts of its tokens, in "
            f"{UNIGRAM_COUNTS}. Received: {directory or '.'}, where it is "
            f"missing. Build the data set again with {REBUILD}."
        )
    words = storage.read_bytes(path).split()
    counts = [int(x) if x.isdigit() and len(x) < 19 else -1 for x in words]
    with files.naming_malformed_file(manifest):
        total = files.read_json(manifest)["counts"].get("train_tokens")
    if (len(counts), sum(counts)) != (vocabulary.size, total):
        raise UserError(
            f"{path} must have {vocabulary.size} numbers that sum to {total}, "
            f"the `train_tokens` of its {MANIFEST}. Received: {len(counts)} "
            f"that sum to {sum(counts)}. Build the data set again with "
            f"{REBUILD}."
        )
    return counts


class RecordWriter(contextlib.ExitStack):
    """Writes records of one kind to several files in turn."""

    def __init__(
        self, directory: str, kind: RecordKind, num_files: int
    ) -> None:
        super().__init__()
        self.num_records = 0
        self.num_files = num_files
        self._directory = directory
        self._kind = kind
        self._prefix = f"{PREFIXES[kind.split]}.tfrecord-"
        if kind.is_short:
            self._prefix += f"{kind.length}-tokens-"
        self._writers: list[tf.io.TFRecordWriter] = []

    def write(self, record: bytes) -> None:
        """Writes a record to the next file."""
        file_number = self.num_records % self.num_files
        if file_number == len(self._writers):
            writer = tf.io.TFRecordWriter(self.unfinished_path(file_number))
            self._writers.append(self.enter_context(writer))
        self._writers[file_number].write(record)
        self.num_records += 1

    def publish(self) -> list[dict[str, Any]]:
        """Gives the files their final names; returns their manifest entries."""
        num_files = min(self.num_files, self.num_records)
        kind = self._kind
        lengths = {"max_seq_length": kind.length} if kind.is_short else {}
        entries = []
        for file_number in range(num_files):
            name = f"{self._prefix}{file_number}-of-{num_files}"
            path = os.path.join(self._directory, name)
            files.sync(self.unfinished_path(file_number))
            storage.move(self.unfinished_path(file_number), path)
            entries.append(
                {
                    "name": name,
                    "split": kind.split,
                    "num_records": len(
                        range(file_number, self.num_records, num_files)
                    ),
                    "num_bytes": storage.size(path),
                    **lengths,
                }
            )
        return entries

    def unfinished_path(self, file_number: int) -> str:
        """Returns the path of a file until it is published."""
        return os.path.join(
            self._directory, f".{self._prefix}{file_number}.tmp"
        )
