"""From documents to the records of one part of a data set."""

import collections
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import sentence_splitter
from electra_tf.data.held_out import Document
from electra_tf.data.lengths import Lengths
from electra_tf.data.packer import Packer, Tokenized, Writer
from electra_tf.data.record_format import Kind
from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.tokenization import Vocabulary

BATCH_CHARACTERS = 2**20  # text that is tokenized at once
MAX_THREADS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


class Packed(NamedTuple):
    """What became of the text, in numbers that add up over parts.

    Attributes:
      counts: documents, tokens and records of a kind -> their number.
      unigrams: how often each token occurs in training records.
    """

    counts: dict[str, int]
    unigrams: list[int]


def pack(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    writers: Mapping[Kind, Writer],
    *,
    lengths: Mapping[str, Lengths],
    num_threads: int = 0,
    report: Callable[[], None] = lambda: None,
) -> list[Packed]:
    """Tokenizes documents, packs them into examples and writes the records.

    They are tokenized once and packed for each data set.

    Args:
      documents: with their splits.
      config: how to pack them.
      vocabulary: of the tokens.
      writers: kind of records -> where they go.
      lengths: counts the tokens of the documents of each split.
      num_threads: that tokenize; 0 for one a core, up to `MAX_THREADS`.
      report: called after each document.

    Returns:
      What became of the text in each data set.
    """
    packers = [
        Packer(data_set, vocabulary, writers) for data_set in config.data_sets
    ]
    for tokenized in _tokenize(documents, config, vocabulary, num_threads):
        for packer in packers:
            packer.add(tokenized)
        lengths[tokenized.document.split].count(len(tokenized.ids))
        report()
    for packer in packers:
        packer.flush()
    return [
        Packed(dict(packer.counts), packer.unigrams.tolist())
        for packer in packers
    ]


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
        lines = [_lines(document, config) for document in batch]
        ragged = tokenize(tf.constant([line for ls in lines for line in ls]))
        ids = ragged.values.numpy()
        ends = ragged.row_splits.numpy()
        lengths = np.diff(ends).tolist()
        made, line = [], 0
        for document, its_lines in zip(batch, lines, strict=True):
            next_line = line + len(its_lines)
            made.append(
                Tokenized(
                    document,
                    ids[ends[line] : ends[next_line]],
                    lengths[line:next_line],
                )
            )
            line = next_line
        return made

    num_threads = num_threads or min(MAX_THREADS, os.cpu_count() or 1)
    batches = _batch(documents)
    for tokenized in _map_ahead(tokenize_batch, batches, num_threads):
        yield from tokenized


def _lines(document: Document, config: CorpusConfig) -> list[str]:
    """Returns the lines of a document, or their sentences."""
    if not config.split_sentences:
        return document.lines
    return [s for line in document.lines for s in sentence_splitter.split(line)]


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocabulary: Vocabulary, do_lower_case: bool, strip_accents: bool
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a graph, made once for all parts of a corpus."""
    tokenizer = make_tokenizer(vocabulary, do_lower_case, strip_accents)
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(
        tokenizer.tokenize, input_signature=signature, autograph=False
    )


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
