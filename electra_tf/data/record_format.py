"""The format of a record, and the kinds of records of a data set.

A record is a `tf.train.Example` with three int64 features of one fixed length,
as the original writes them: `input_ids`, `input_mask`, `segment_ids`. Where
several examples share a row, `input_mask` numbers them 1, 2, ...
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.packing_rules import ExampleSpan
from electra_tf.model.tokenization import Vocabulary

FEATURES = ("input_ids", "input_mask", "segment_ids")
_NAMES = tuple(name.encode() for name in FEATURES)

TRAIN = "train"
HELD_OUT = "held_out"
SPLITS = (TRAIN, HELD_OUT)


class RecordKind(NamedTuple):
    """A kind of records, which are written to the same files."""

    max_seq_length: int
    split: str
    length: int

    @property
    def is_short(self) -> bool:
        """Whether the records have fewer than `max_seq_length` numbers."""
        return self.length < self.max_seq_length

    @property
    def counter(self) -> str:
        """Key in `Packed.counts` of the number of such records."""
        return "-".join(("records", *map(str, self)))


def kinds(config: CorpusConfig) -> list[RecordKind]:
    """Returns the kinds of records of a corpus, those for training first."""
    return [
        RecordKind(data_set.max_seq_length, split, length)
        for data_set in config.data_sets
        for split, lengths in lengths_by_split(data_set).items()
        for length in lengths
    ]


def lengths_by_split(data_set: CorpusConfig) -> dict[str, tuple[int, ...]]:
    """Returns split -> row lengths of its records in a data set, ascending."""
    lengths = data_set.row_lengths
    return {TRAIN: lengths, HELD_OUT: lengths[-1:]}


class Rows(NamedTuple):
    """Examples as the features of records."""

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray


def layout(
    ids: np.ndarray,
    rows: Sequence[Sequence[ExampleSpan]],
    max_seq_length: int,
    vocabulary: Vocabulary,
) -> Rows:
    """Lays out examples, one after the other in a row."""
    spans = np.array([span for row in rows for span in row], np.int64)
    starts, splits, ends = spans.reshape(-1, 3).T  # [examples]
    num_first = splits - starts + 2  # with [CLS] and [SEP]
    num_second = ends - splits + (ends > splits)
    sizes = num_first + num_second
    num_examples = np.array([len(row) for row in rows], np.int64)
    number = _ranges(np.ones_like(num_examples), num_examples)
    row = np.repeat(np.arange(len(rows)), num_examples)

    cls_positions = _group_starts(sizes)
    tokens = np.full(sizes.sum(), vocabulary.sep_id)  # of all examples
    tokens[cls_positions] = vocabulary.cls_id
    is_text = np.ones(tokens.shape, bool)
    for offset in (0, num_first - 1, sizes - 1):
        is_text[cls_positions + offset] = False
    tokens[is_text] = ids[_ranges(starts, ends - starts)]
    segments = np.stack([num_first, num_second], axis=1).ravel()
    is_second = np.repeat(np.arange(len(segments)) % 2, segments)

    firsts = np.repeat(_group_starts(num_examples), num_examples)
    columns = cls_positions - cls_positions[firsts]  # where examples begin
    places = _ranges(row * max_seq_length + columns, sizes)
    made = Rows(
        *(
            np.zeros((len(rows), max_seq_length), dtype)
            for dtype in (np.int64, np.uint8, np.uint8)
        )
    )
    for feature, values in zip(
        made, (tokens, np.repeat(number, sizes), is_second), strict=True
    ):
        feature.reshape(-1)[places] = values
    return made


def _group_starts(sizes: np.ndarray) -> np.ndarray:
    """Returns the starts of consecutive groups of these sizes."""
    return np.cumsum(sizes) - sizes


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the concatenation of ranges of integers."""
    steps = np.repeat(starts - _group_starts(sizes), sizes)
    return steps + np.arange(len(steps))


def by_length(rows: Rows, lengths: Sequence[int]) -> Iterator[tuple[int, Rows]]:
    """Cuts each row to the shortest of some lengths that holds its tokens."""
    fits = np.searchsorted(lengths, np.count_nonzero(rows.input_mask, axis=1))
    for number, length in enumerate(lengths):
        chosen = fits == number
        if chosen.any():
            yield length, Rows(*(feature[chosen, :length] for feature in rows))


def serialize(rows: Rows) -> list[bytes]:
    """Serializes each row as a `tf.train.Example`."""
    records = []
    for int64_lists in zip(*map(_int64_lists, rows), strict=True):
        entries = zip(_NAMES, int64_lists, strict=True)
        features = b"".join(
            _feature_header(name, len(content)) + content
            for name, content in entries
        )
        records.append(header(1, len(features)) + features)
    return records


def _int64_lists(values: np.ndarray) -> list[bytes]:
    """Returns each row of numbers as a serialized `tf.train.Int64List`."""
    sizes = np.full((len(values), 1), values.shape[1], np.int32)
    encoded = tf.io.encode_proto(
        sizes, [values.astype(np.int64)], ["value"], "tensorflow.Int64List"
    )
    return encoded.numpy().tolist()


@functools.lru_cache
def _feature_header(name: bytes, size: int) -> bytes:
    """Returns the bytes before the Int64List of a feature."""
    feature = header(3, size)
    key = header(1, len(name)) + name
    entry = key + header(2, len(feature) + size) + feature
    return header(1, len(entry) + size) + entry


@functools.lru_cache
def header(number: int, size: int) -> bytes:
    """Returns the header of a length-delimited field of a protocol buffer."""
    groups = [number << 3 | 2]
    while size > 127:
        groups.append(size & 127 | 128)
        size >>= 7
    return bytes([*groups, size])


def parse(serialized: tf.Tensor, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Parses a batch of records.

    Shapes: serialized [B]; returns [B, L].
    """
    feature = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    return tf.io.parse_example(serialized, dict.fromkeys(FEATURES, feature))
