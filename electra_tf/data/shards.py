"""Shards: parts of a corpus that are turned into records independently.

Which text belongs to which shard depends on the corpus alone, so that a data
set is the same for any number of processes.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, deduplication, held_out, packing
from electra_tf.data.records import RecordKind, kinds
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files

SHARD_BYTES = 16 * 2**20  # of text
ORIGINAL_MAX_CHARACTERS = 2**24  # the original never cuts a document


class Shard(NamedTuple):
    """A part of the corpus, and where its records and counts are written."""

    sources: tuple[corpus.TextSource, ...]
    directory: str
    dropped: bytes = b""  # a bit for each document

    @property
    def summary_path(self) -> str:
        """File of the counts and of documents without a split."""
        return os.path.join(self.directory, "summary.json")

    @property
    def hashes_path(self) -> str:
        """File of the hashes of the documents."""
        return f"{self.directory}.hashes"

    def records_path(self, kind: RecordKind) -> str:
        """File of the records of a kind."""
        return os.path.join(self.directory, str(kind))

    def records(self, kind: RecordKind) -> Iterator[bytes]:
        """Yields the records of a kind."""
        dataset = tf.data.TFRecordDataset(self.records_path(kind))
        for batch in dataset.batch(1024):
            yield from batch.numpy()


def divide(
    sources: Iterable[corpus.TextSource], config: CorpusConfig
) -> Iterator[tuple[corpus.TextSource, ...]]:
    """Splits large sources and joins small ones, to shards."""
    if config.packing == "original":  # its state goes from document to document
        yield tuple(sources)
        return
    group, size = [], 0
    for source in sources:
        for piece in corpus.split_source(
            source,
            SHARD_BYTES,
            blanks_separate_docs=config.blanks_separate_docs,
        ):
            num_bytes = piece.num_text_bytes
            if group and size + num_bytes > SHARD_BYTES:
                yield tuple(group)
                group, size = [], 0
            group.append(piece)
            size += num_bytes
    yield tuple(group)


def _read(
    shard: Shard, config: CorpusConfig, counts: corpus.Counts
) -> Iterator[list[str]]:
    """Yields all documents of a shard, duplicates included."""
    limit = corpus.MAX_DOCUMENT_CHARACTERS
    if config.packing == "original":
        limit = ORIGINAL_MAX_CHARACTERS
    return corpus.read_documents(
        shard.sources, config, counts, max_characters=limit
    )


def write_hashes(
    shard: Shard,
    *,
    config: CorpusConfig,
    num_threads: int = 0,
) -> None:
    """Writes the hashes of the documents of a shard."""
    hashes = (
        deduplication.document_hash(lines, do_lower_case=config.do_lower_case)
        for lines in _read(shard, config, corpus.Counts())
    )
    deduplication.write_hashes(shard.hashes_path, hashes)


def convert(
    shard: Shard,
    *,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    num_threads: int = 0,
) -> None:
    """Writes the records of a shard, and a summary of them."""
    read = corpus.Counts()
    splitter = held_out.Splitter(config.held_out_fraction, config.data_seed)
    documents = deduplication.without_duplicates(
        _read(shard, config, read), shard.dropped, read
    )
    documents = splitter.assign(documents)
    counts = pack(documents, shard, config, vocabulary, num_threads)
    summary = {
        **counts,
        "read": read,
        "splits": sorted(splitter.splits),
        "undecided": splitter.undecided,
    }
    files.write_json(shard.summary_path, summary)


def pack(
    documents: Iterable[held_out.Document],
    shard: Shard,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    num_threads: int = 0,
) -> dict[str, Any]:
    """Tokenizes documents once, packs them for each data set, and counts."""
    tf.io.gfile.makedirs(shard.directory)
    with contextlib.ExitStack() as stack:
        packers = []
        for data_set in config.data_sets:
            writers = {
                kind: stack.enter_context(
                    tf.io.TFRecordWriter(shard.records_path(kind))
                )
                for kind in kinds(data_set)
            }
            packers.append(packing.Packer(data_set, vocabulary, writers))
        for tokenized in packing.tokenize(
            documents, config, vocabulary, num_threads
        ):
            for packer in packers:
                packer.add(*tokenized)
        for packer in packers:
            packer.flush()
    return {
        "counts": [packer.counts for packer in packers],
        "unigrams": [packer.unigrams.tolist() for packer in packers],
    }
