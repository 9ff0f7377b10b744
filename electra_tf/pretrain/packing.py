"""From documents to the records of one part of a data set."""

import collections
import functools
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import tensorflow as tf

from electra_tf.configure_corpus import CorpusConfig
from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.example_builder import Example, ExampleBuilder
from electra_tf.pretrain.held_out import Document
from electra_tf.pretrain.record_format import HELD_OUT, serialize

BATCH_CHARACTERS = 2**20  # text that is tokenized at once
MAX_THREADS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")
Tokenized = tuple[Document, list[list[int]]]  # with the ids of its lines


class Writer(Protocol):
    """What records are written to."""

    def write(self, record: bytes) -> None:
        """Writes a record."""


def pack(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    writers: Mapping[str, Writer],
    *,
    num_threads: int = 0,
    report: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Tokenizes documents, packs them into examples and writes the records.

    Args:
      documents: with their splits.
      config: how to pack them.
      vocabulary: of the tokens.
      writers: split -> where its records go.
      num_threads: that tokenize; 0 for one a core, up to `MAX_THREADS`.
      report: called after each document.

    Returns:
      What became of the text, in numbers that add up over parts.
    """
    packer = _Packer(config, vocabulary, writers)
    for document, lines in _tokenize(
        documents, config, vocabulary, num_threads
    ):
        packer.add(document, lines)
        report()
    return dict(packer.counts)


def _tokenize(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    num_threads: int,
) -> Iterator[Tokenized]:
    """Tokenizes documents, many at once."""
    tokenize = _tokenizer(
        vocabulary, config.do_lower_case, config.strip_accents
    )

    def tokenize_batch(batch: list[Document]) -> list[Tokenized]:
        text = [line for document in batch for line in document.lines]
        ragged = tokenize(tf.constant(text))
        ids = ragged.values.numpy().tolist()
        splits = ragged.row_splits.numpy().tolist()
        lines = (ids[start:end] for start, end in itertools.pairwise(splits))
        return [
            (document, list(itertools.islice(lines, len(document.lines))))
            for document in batch
        ]

    num_threads = num_threads or min(MAX_THREADS, os.cpu_count() or 1)
    batches = _batch(documents)
    for tokenized in _map_ahead(tokenize_batch, batches, num_threads):
        yield from tokenized


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocabulary: Vocabulary, do_lower_case: bool, strip_accents: bool
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a graph, made once for all parts of a corpus."""
    tokenizer = make_tokenizer(vocabulary, do_lower_case, strip_accents)
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(tokenizer.tokenize, input_signature=signature)


def _batch(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Joins documents to batches of about `BATCH_CHARACTERS`."""
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document.lines))
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], num_threads: int
) -> Iterator[Result]:
    """Maps in order, with a bounded number of items in work in threads."""
    with ThreadPoolExecutor(num_threads) as pool:
        pending: collections.deque = collections.deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > num_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class _Packer:
    """Writes the examples of documents and counts what becomes of the text.

    Attributes:
      counts: documents, tokens and records of a kind -> their number.
    """

    def __init__(
        self,
        config: CorpusConfig,
        vocabulary: Vocabulary,
        writers: Mapping[str, Writer],
    ) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._max_seq_length = config.max_seq_length
        self._vocabulary = vocabulary
        self._writers = writers
        self._original_builders = {}
        if config.original_packing:
            self._original_builders = {
                split: ExampleBuilder(
                    config.max_seq_length,
                    random.Random(config.data_seed),
                    carry=False,
                )
                for split in writers
            }

    def add(self, document: Document, lines: list[list[int]]) -> None:
        """Packs and writes a document, given the ids of its lines."""
        builder = self._original_builders.get(document.split)
        if builder is None:
            rng = random.Random(document.key)
            builder = ExampleBuilder(self._max_seq_length, rng)
        for ids in lines:
            self._write(builder.add_line(ids), document.split)
        self._write(builder.end_document(), document.split)
        num_tokens = sum(map(len, lines))
        is_held_out = document.split == HELD_OUT
        self.counts["tokens_read"] += num_tokens
        self.counts["documents_without_tokens"] += not num_tokens
        self.counts["held_out_documents"] += is_held_out

    def _write(self, examples: list[Example], split: str) -> None:
        for example in examples:
            self._writers[split].write(
                serialize(example, self._max_seq_length, self._vocabulary)
            )
            num_tokens = len(example.first) + len(example.second)
            self.counts["tokens_kept"] += num_tokens
            self.counts["special_tokens"] += 3 if example.second else 2
            self.counts["records"] += 1
            self.counts["held_out_records"] += split == HELD_OUT
