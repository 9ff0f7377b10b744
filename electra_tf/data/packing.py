"""Turns documents into records of a shard: tokenize, cut, pack, serialize."""

import collections
import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import sentence_splitter
from electra_tf.data.held_out import Document
from electra_tf.data.packing_rules import (
    ExampleBuilder,
    ExampleSpan,
    carry,
    rows_of,
)
from electra_tf.data.record_format import (
    HELD_OUT,
    TRAIN,
    RecordKind,
    by_length,
    layout,
    lengths_by_split,
    serialize,
)
from electra_tf.data.summaries import Packed, Summary
from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.batching import batches
from electra_tf.util.machine import num_cores

BATCH_CHARACTERS = 2**20  # text that is tokenized at once
MAX_THREADS = 8
ROWS_AT_ONCE = 1024  # rows that are packed and encoded together

Writers = Mapping[RecordKind, tf.io.TFRecordWriter]


class Tokenized(NamedTuple):
    """A document and its word pieces."""

    document: Document
    ids: np.ndarray
    line_lengths: list[int]


def pack(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    writers: Writers,
    summary: Summary,
    *,
    num_threads: int = 0,
    report: Callable[[], None] = lambda: None,
) -> None:
    """Tokenizes documents once and packs them for each data set."""
    packers = [
        Packer(data_set, vocabulary, writers, packed)
        for data_set, packed in zip(
            config.data_sets, summary.packed, strict=True
        )
    ]
    for tokenized in _tokenize(documents, config, vocabulary, num_threads):
        for packer in packers:
            packer.add(tokenized)
        lengths = summary.lengths[tokenized.document.split]
        lengths.count(len(tokenized.ids))
        report()
    for packer in packers:
        packer.flush()


class _Buffer:
    """Examples that are not written yet, with their tokens."""

    def __init__(self) -> None:
        self.spans: list[ExampleSpan] = []
        self.num_tokens = 0
        self._ids: list[np.ndarray] = []
        self._num_ids = 0

    def add(self, ids: np.ndarray, spans: list[ExampleSpan]) -> None:
        """Adds tokens and the examples that they make up."""
        offset = self._num_ids
        self.spans += [
            ExampleSpan(start + offset, split + offset, end + offset)
            for start, split, end in spans
        ]
        self.num_tokens += sum(span.num_tokens for span in spans)
        self._ids.append(ids)
        self._num_ids += len(ids)

    def ids(self) -> np.ndarray:
        """Returns all buffered tokens, int [tokens]."""
        return np.concatenate([np.zeros(0, int), *self._ids])


class Packer:
    """Packs documents into records and counts tokens, examples and records."""

    def __init__(
        self,
        config: CorpusConfig,
        vocabulary: Vocabulary,
        writers: Writers,
        packed: Packed,
    ) -> None:
        self._counts, self._unigrams = packed
        self._max_seq_length = config.max_seq_length
        self._row_lengths = lengths_by_split(config)
        self._vocabulary = vocabulary
        self._writers = writers
        self._buffers = {split: _Buffer() for split in self._row_lengths}
        self._is_packed = config.is_packed
        self._original_builders = {
            split: ExampleBuilder(
                config.max_seq_length, random.Random(config.data_seed)
            )
            for split in self._row_lengths
            if config.packing == "original"
        }

    def add(self, tokenized: Tokenized) -> None:
        """Packs a document; about `ROWS_AT_ONCE` rows are written at a time."""
        document, ids, line_lengths = tokenized
        split = document.split
        if split in self._original_builders:
            self._add_original(tokenized)
        else:
            cut = carry(
                line_lengths, self._max_seq_length, random.Random(document.key)
            )
            self._buffers[split].add(ids, cut)
        buffer = self._buffers[split]
        num_rows = len(buffer.spans)
        if self._is_packed:
            # A lower bound on the rows.
            num_rows = buffer.num_tokens // self._max_seq_length
        if num_rows >= ROWS_AT_ONCE:
            self._write(split)
        self._counts["tokens_read"] += len(ids)
        self._counts["documents_without_tokens"] += not len(ids)
        self._counts["held_out_documents"] += split == HELD_OUT

    def flush(self) -> None:
        """Writes the examples that are still buffered."""
        for split in self._buffers:
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
            span = ExampleSpan(0, len(first), len(both))
            self._buffers[split].add(both, [span])

    def _write(self, split: str) -> None:
        buffer, self._buffers[split] = self._buffers[split], _Buffer()
        ids, spans = buffer.ids(), buffer.spans
        rows = rows_of(spans, self._max_seq_length, is_packed=self._is_packed)
        self._counts["tokens_kept"] += len(ids)
        self._counts["special_tokens"] += buffer.num_tokens - len(ids)
        self._counts["examples"] += len(spans)
        self._counts["records"] += len(rows)
        self._counts["held_out_records"] += len(rows) * (split == HELD_OUT)
        if split == TRAIN:
            self._unigrams += np.bincount(
                ids.astype(np.int64), minlength=len(self._unigrams)
            )
        made = layout(ids, rows, self._max_seq_length, self._vocabulary)
        for length, cut in by_length(made, self._row_lengths[split]):
            self._counts["slots"] += cut.input_ids.size
            kind = RecordKind(self._max_seq_length, split, length)
            self._counts[kind.counter] += len(cut.input_ids)
            writer = self._writers[kind]
            for record in serialize(cut):
                writer.write(record)


def _tokenize(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    num_threads: int,
) -> Iterator[Tokenized]:
    """Tokenizes documents in batches, in several threads."""
    tokenize = _tokenizer(
        vocabulary, config.do_lower_case, config.strip_accents
    )

    def tokenize_batch(batch: list[Document]) -> list[Tokenized]:
        lines = [_lines(document, config) for document in batch]
        ragged = tokenize(tf.constant([line for ls in lines for line in ls]))
        ids = ragged.values.numpy()
        ends = ragged.row_splits.numpy()
        lengths = np.diff(ends).tolist()
        borders = itertools.pairwise(
            itertools.accumulate(map(len, lines), initial=0)
        )
        return [
            Tokenized(document, ids[ends[a] : ends[b]], lengths[a:b])
            for document, (a, b) in zip(batch, borders, strict=True)
        ]

    num_threads = num_threads or min(MAX_THREADS, num_cores())
    with ThreadPoolExecutor(num_threads) as pool:
        pending: collections.deque = collections.deque()
        for batch in batches(
            documents, size=_num_characters, enough=BATCH_CHARACTERS
        ):
            pending.append(pool.submit(tokenize_batch, batch))
            if len(pending) > num_threads:  # bounds the text in memory
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _lines(document: Document, config: CorpusConfig) -> list[str]:
    """Returns the lines of a document, or their sentences."""
    if not config.split_sentences:
        return document.lines
    return [s for line in document.lines for s in sentence_splitter.split(line)]


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocabulary: Vocabulary, do_lower_case: bool, strip_accents: bool
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a tokenizing graph, traced once for all shards of a corpus."""
    tokenizer = make_tokenizer(vocabulary, do_lower_case, strip_accents)
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(
        tokenizer.tokenize, input_signature=signature, autograph=False
    )


def _num_characters(document: Document) -> int:
    return sum(map(len, document.lines))
