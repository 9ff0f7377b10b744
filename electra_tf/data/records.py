"""The files of a data set: records, `manifest.json`, `unigram_counts.txt`.

A record is a `tf.train.Example` with three int64 features of one fixed length,
as in the original: `input_ids`, `input_mask`, `segment_ids`. `input_mask`
numbers examples that share a row 1, 2, ... `unigram_counts.txt` has the count
of each token in the training records, without special ones but [UNK].
"""

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from etils import epath

from electra_tf.config.corpus import CorpusConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files
from electra_tf.util.errors import UserError

FEATURES = ("input_ids", "input_mask", "segment_ids")
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
UNIGRAM_COUNTS = "unigram_counts.txt"
PARTS = ".parts"
"""Directory beside the records, there while they are being built."""
TRAIN = "train"
HELD_OUT = "held_out"
SPLITS = (TRAIN, HELD_OUT)
PREFIXES = {TRAIN: "pretrain_data", HELD_OUT: "held_out_data"}
REBUILD = "`python -m electra_tf.build_pretraining_dataset --overwrite`"

# A run need not set these; data sets of different lengths must agree in them.
_BUILD_SETTINGS = (
    "blanks_separate_docs",
    "data_seed",
    "drop_duplicates",
    "held_out_fraction",
    "corpus",
)


class Rows(NamedTuple):
    """Examples as the features of records, int [rows, L] each."""

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray


def layout(
    rows: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]],
    max_seq_length: int,
    vocabulary: Vocabulary,
) -> Rows:
    """Lays out the examples of each row, one after the other."""
    shape = (len(rows), max_seq_length)
    tokens = np.zeros(shape, np.int64)
    numbers, segments = np.zeros((2, *shape), np.uint8)
    for row, examples in enumerate(rows):
        start = 0
        for number, (first, second) in enumerate(examples, 1):
            sep = start + 1 + len(first)
            tokens[row, start] = vocabulary.cls_id
            tokens[row, start + 1 : sep] = first
            tokens[row, sep] = vocabulary.sep_id
            end = sep + 1
            if len(second):
                end = sep + 2 + len(second)
                tokens[row, sep + 1 : end - 1] = second
                tokens[row, end - 1] = vocabulary.sep_id
                segments[row, sep + 1 : end] = 1
            numbers[row, start:end] = number
            start = end
    return Rows(tokens, numbers, segments)


def serialize(rows: Rows) -> list[bytes]:
    """Serializes each row as a `tf.train.Example`."""
    num_rows = len(rows.input_ids)
    numbers = np.concatenate(rows).astype(np.int64)  # [3 * rows, L]
    keys = np.repeat(FEATURES, num_rows)[:, np.newaxis]  # [3 * rows, 1]
    lists = _encode("Int64List", value=numbers)
    features = _encode("Feature", int64_list=lists)
    entries = _encode("Features.FeatureEntry", key=keys, value=features)
    entries = tf.transpose(tf.reshape(entries, [len(FEATURES), num_rows]))
    examples = _encode("Example", features=_encode("Features", feature=entries))
    return examples[:, 0].numpy().tolist()


def _encode(message: str, **fields: np.ndarray | tf.Tensor) -> tf.Tensor:
    """Encodes rows of repeated fields [n, size] as messages, string [n, 1]."""
    values = list(fields.values())
    sizes = np.array([value.shape[1] for value in values], np.int32)
    sizes = np.tile(sizes, (len(values[0]), 1))
    message = f"tensorflow.{message}"
    return tf.io.encode_proto(sizes, values, list(fields), message)[:, None]


def parse(serialized: tf.Tensor, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Parses records, string [B], to features, int64 [B, L]."""
    feature = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    return tf.io.parse_example(serialized, dict.fromkeys(FEATURES, feature))


def find_data_set(directory: str) -> list[str]:
    """Lists the files of a data set in a directory, its manifest first."""
    names = [MANIFEST, UNIGRAM_COUNTS]
    names += [f"{prefix}.tfrecord*" for prefix in PREFIXES.values()]
    patterns = [os.path.join(files.escape(directory), name) for name in names]
    return list(itertools.chain(*map(files.find, patterns)))


def is_half_built(directory: str) -> bool:
    """Returns whether a build was stopped that left no complete data set."""
    left, complete = (os.path.join(directory, x) for x in (PARTS, MANIFEST))
    return tf.io.gfile.exists(left) and not tf.io.gfile.exists(complete)


def settings(config: CorpusConfig, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "vocab_sha256": vocabulary.sha256,
        "vocab_size": vocabulary.size,
        "tokenizer": vocabulary.kind,
        "do_lower_case": config.do_lower_case,
        "strip_accents": config.strip_accents,
        "max_seq_length": config.max_seq_length,
        "packing": config.packing,
        **{name: getattr(config, name) for name in _BUILD_SETTINGS},
    }


def stored_manifest(directory: str) -> dict[str, Any]:
    """Returns the manifest of a data set, unchecked; {} if it has none."""
    path = os.path.join(directory, MANIFEST)
    return files.read_json(path) if tf.io.gfile.exists(path) else {}


def read_manifest(
    directory: str, config: CorpusConfig, vocabulary: Vocabulary
) -> dict[str, Any]:
    """Reads a manifest and compares it with a run; {} if there is none."""
    manifest = stored_manifest(directory)
    if is_half_built(directory):
        raise UserError(
            f"The build of the data set in {directory} was stopped: repeat it "
            f"with {REBUILD}."
        )
    asked = settings(config, vocabulary)
    asked = {k: v for k, v in asked.items() if k not in _BUILD_SETTINGS}
    _check_equal(directory, manifest, asked)
    return manifest


def check_builds(
    directories: Mapping[int, Iterable[str]], config: CorpusConfig
) -> None:
    """Compares how records were built with the flags of a run that are set.

    Records of all lengths must be of one build: those of one length may hold
    the documents that another holds out.
    """
    default = CorpusConfig()
    asked = {name: getattr(config, name) for name in _BUILD_SETTINGS}
    del asked["corpus"]  # it may have moved
    asked = {k: v for k, v in asked.items() if v != getattr(default, k)}
    builds = set()
    for each in directories.values():
        built = []
        for directory in each:
            if manifest := stored_manifest(directory):
                _check_equal(directory, manifest, asked)
                values = map(manifest.get, _BUILD_SETTINGS)
                built.append(json.dumps([*values]))
        builds.add(", ".join(sorted(built)))
    if len(builds - {""}) > 1:
        raise UserError(
            f"The data sets in {directories} are not of one build: {builds}. "
            f"Build them again with {REBUILD}."
        )


def _check_equal(
    directory: str, manifest: Mapping[str, Any], asked: Mapping[str, Any]
) -> None:
    differing = [
        f"{name} is {manifest[name]} in the data set but {value} in this run"
        for name, value in asked.items()
        if manifest.get(name, value) != value
    ]
    if differing:
        raise UserError(
            f"The data set in {directory} does not match this run: "
            f"{'; '.join(differing)}. Change the flags, or build it again with "
            f"{REBUILD}."
        )


def read_unigram_counts(
    directories: Iterable[str], vocabulary: Vocabulary
) -> tuple[int, ...]:
    """Adds up the counts of tokens in data sets, int [V]."""
    total = np.zeros(vocabulary.size, np.int64)
    for directory in directories:
        path = epath.Path(directory, UNIGRAM_COUNTS)
        total += np.array(path.read_text().split(), np.int64)
    return tuple(total.tolist())


def write_unigram_counts(directory: str, counts: Iterable[int]) -> None:
    """Writes the counts of the tokens, in the order of the vocabulary."""
    path = os.path.join(directory, UNIGRAM_COUNTS)
    files.atomic_write_text(path, "".join(f"{count}\n" for count in counts))
