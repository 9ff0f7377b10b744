"""From tokenized documents to the records of a data set."""

import collections
import itertools
import random
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.example_builder import ExampleBuilder
from electra_tf.data.held_out import Document
from electra_tf.data.record_format import (
    HELD_OUT,
    TRAIN,
    Kind,
    by_length,
    layout,
    serialize,
)
from electra_tf.data.shared_rows import share
from electra_tf.data.spans import Span, carry
from electra_tf.model.tokenization import Vocabulary

ROWS_AT_ONCE = 1024  # records that are packed and encoded together


class Tokenized(NamedTuple):
    """A document and its word pieces.

    Attributes:
      document: the document.
      ids: int32 [pieces], of all its lines.
      line_lengths: pieces of each line.
    """

    document: Document
    ids: np.ndarray
    line_lengths: list[int]


class _Waiting:
    """Examples that are not written yet.

    Attributes:
      spans: of the examples, in all tokens that wait.
      num_tokens: of the examples, with the special ones.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.num_tokens = 0
        self._ids: list[np.ndarray] = []
        self._num_ids = 0

    def add(self, ids: np.ndarray, spans: list[Span]) -> None:
        """Adds tokens and the examples that they make up."""
        offset = self._num_ids
        self.spans += [
            Span(start + offset, split + offset, end + offset)
            for start, split, end in spans
        ]
        self.num_tokens += sum(span.num_tokens for span in spans)
        self._ids.append(ids)
        self._num_ids += len(ids)

    def ids(self) -> np.ndarray:
        """Returns all tokens that wait, int [tokens]."""
        return np.concatenate([np.zeros(0, int), *self._ids])


class Writer(Protocol):
    """What records are written to."""

    def write(self, record: bytes) -> None:
        """Writes a record."""


class Packer:
    """Writes the examples of documents and counts what becomes of the text.

    Args:
      config: of one data set.
      vocabulary: of the tokens.
      writers: kind of records -> where they go.

    Attributes:
      counts: documents, tokens and records of a kind -> their number.
      unigrams: int64 [V], how often each token occurs in training records,
        special ones not counted.
    """

    def __init__(
        self,
        config: CorpusConfig,
        vocabulary: Vocabulary,
        writers: Mapping[Kind, Writer],
    ) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.unigrams = np.zeros(vocabulary.size, np.int64)
        self._max_seq_length = config.max_seq_length
        self._row_lengths = {
            TRAIN: config.row_lengths,
            HELD_OUT: config.row_lengths[-1:],
        }
        self._vocabulary = vocabulary
        self._writers = writers
        self._waiting = {split: _Waiting() for split in self._row_lengths}
        self._is_packed = config.is_packed
        self._original_builders = {}
        if config.packing == "original":
            self._original_builders = {
                split: ExampleBuilder(
                    config.max_seq_length, random.Random(config.data_seed)
                )
                for split in self._row_lengths
            }

    def add(self, tokenized: Tokenized) -> None:
        """Packs a document; records are written some hundreds at a time."""
        document, ids, line_lengths = tokenized
        split = document.split
        if split in self._original_builders:
            self._add_original(tokenized)
        else:
            cut = carry(
                line_lengths, self._max_seq_length, random.Random(document.key)
            )
            self._waiting[split].add(ids, cut)
        if self._num_rows(self._waiting[split]) >= ROWS_AT_ONCE:
            self._write(split)
        self.counts["tokens_read"] += len(ids)
        self.counts["documents_without_tokens"] += not len(ids)
        self.counts["held_out_documents"] += split == HELD_OUT

    def flush(self) -> None:
        """Writes what still waits."""
        for split in self._waiting:
            self._write(split)

    def _add_original(self, tokenized: Tokenized) -> None:
        split = tokenized.document.split
        builder, ids = self._original_builders[split], tokenized.ids.tolist()
        ends = itertools.accumulate(tokenized.line_lengths, initial=0)
        examples = [
            example
            for start, end in itertools.pairwise(ends)
            for example in builder.add_line(ids[start:end])
        ]
        for first, second in examples + builder.end_document():
            both = np.array(first + second)
            span = Span(0, len(first), len(both))
            self._waiting[split].add(both, [span])

    def _num_rows(self, waiting: _Waiting) -> int:
        """Returns how many rows the waiting examples fill, at least."""
        if self._is_packed:
            return waiting.num_tokens // self._max_seq_length
        return len(waiting.spans)

    def _write(self, split: str) -> None:
        waiting, self._waiting[split] = self._waiting[split], _Waiting()
        ids, spans = waiting.ids(), waiting.spans
        rows = [[span] for span in spans]
        if self._is_packed:
            sizes = [span.num_tokens for span in spans]
            shared = share(sizes, self._max_seq_length)
            rows = [[spans[i] for i in row] for row in shared]
        self.counts["tokens_kept"] += len(ids)
        self.counts["special_tokens"] += waiting.num_tokens - len(ids)
        self.counts["examples"] += len(spans)
        self.counts["records"] += len(rows)
        self.counts["held_out_records"] += len(rows) * (split == HELD_OUT)
        if split == TRAIN:
            self.unigrams += np.bincount(
                ids.astype(np.int64), minlength=len(self.unigrams)
            )
        made = layout(ids, rows, self._max_seq_length, self._vocabulary)
        for length, cut in by_length(made, self._row_lengths[split]):
            self.counts["slots"] += cut.input_ids.size
            kind = Kind(self._max_seq_length, split, length)
            self.counts[kind.counter] += len(cut.input_ids)
            writer = self._writers[kind]
            for record in serialize(cut):
                writer.write(record)
