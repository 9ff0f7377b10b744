"""From tokenized documents to the records of a data set."""

import itertools
import random
from typing import Any, NamedTuple

import numpy as np

from electra_tf.configure_pretraining import CorpusConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import packing
from electra_tf.pretrain.example_builder import ExampleBuilder
from electra_tf.pretrain.record_format import (
    HELD_OUT,
    TRAIN,
    ShardWriter,
    layout,
    serialize,
)

ROWS_AT_ONCE = 1024  # records that are encoded together


class Document(NamedTuple):
    """A document on its way to a split.

    Attributes:
      lines: its text.
      key: 128 bits made from its text and `data_seed`, the source of its
        random choices; the documents with the smallest keys are held out.
      split: "train" or "held_out".
    """

    lines: list[str]
    key: int
    split: str


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
    """

    def __init__(self) -> None:
        self.spans: list[packing.Span] = []
        self._ids: list[np.ndarray] = []
        self._num_ids = 0

    def add(self, ids: np.ndarray, spans: list[packing.Span]) -> None:
        """Adds tokens and the examples that they make up."""
        offset = self._num_ids
        self.spans += [
            packing.Span(start + offset, split + offset, end + offset)
            for start, split, end in spans
        ]
        self._ids.append(ids)
        self._num_ids += len(ids)

    def take(self) -> tuple[np.ndarray, list[packing.Span]]:
        """Removes everything and returns it."""
        taken = np.concatenate([np.zeros(0, int), *self._ids]), self.spans
        self.spans, self._ids, self._num_ids = [], [], 0
        return taken


class Packer:
    """Writes the examples of documents and counts what becomes of the text.

    Attributes:
      num_tokens: tokens of the text.
      unigrams: int64 [V], how often each token occurs in training records,
        special ones not counted.
    """

    def __init__(
        self,
        config: CorpusConfig,
        vocabulary: Vocabulary,
        writers: dict[str, ShardWriter],
    ) -> None:
        self.num_tokens = 0
        self.unigrams = np.zeros(vocabulary.size, np.int64)
        self._num_kept = 0
        self._num_special = 0
        self._num_without_tokens = 0
        self._num_held_out = 0
        self._max_seq_length = config.max_seq_length
        self._vocabulary = vocabulary
        self._writers = writers
        self._waiting = {split: _Waiting() for split in writers}
        self._original_builders = {}
        if config.original_packing:
            self._original_builders = {
                split: ExampleBuilder(
                    config.max_seq_length, random.Random(config.data_seed)
                )
                for split in writers
            }

    def add(self, tokenized: Tokenized) -> None:
        """Packs a document; records are written some hundreds at a time."""
        document, ids, line_lengths = tokenized
        split = document.split
        if split in self._original_builders:
            self._add_original(tokenized)
        else:
            spans = packing.carry(
                line_lengths, self._max_seq_length, random.Random(document.key)
            )
            self._waiting[split].add(ids, spans)
        if len(self._waiting[split].spans) >= ROWS_AT_ONCE:
            self._write(split)
        self.num_tokens += len(ids)
        self._num_without_tokens += not len(ids)
        self._num_held_out += split == HELD_OUT

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
            span = packing.Span(0, len(first), len(both))
            self._waiting[split].add(both, [span])

    def _write(self, split: str) -> None:
        ids, spans = self._waiting[split].take()
        rows = layout(ids, spans, self._max_seq_length, self._vocabulary)
        self._num_kept += len(ids)
        self._num_special += int(rows.input_mask.sum()) - len(ids)
        if split == TRAIN:
            self.unigrams += np.bincount(
                ids.astype(np.int64), minlength=len(self.unigrams)
            )
        for record in serialize(rows):
            self._writers[split].write(record)

    def counts(self) -> dict[str, Any]:
        """Returns the manifest's counts."""
        num_records = sum(w.num_records for w in self._writers.values())
        num_slots = num_records * self._max_seq_length
        num_padding = num_slots - self._num_kept - self._num_special
        return {
            "held_out_documents": self._num_held_out,
            "documents_without_tokens": self._num_without_tokens,
            "tokens_read": self.num_tokens,
            "tokens_kept": self._num_kept,
            "tokens_dropped": self.num_tokens - self._num_kept,
            "train_tokens": int(self.unigrams.sum()),
            "padding_share": round(num_padding / num_slots, 6),
            "records": num_records,
            "held_out_records": self._writers[HELD_OUT].num_records,
        }
