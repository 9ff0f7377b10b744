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

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def records(self, kind: RecordKind) -> Iterator[bytes]:
        dataset = tf.data.TFRecordDataset(self.path(str(kind)))
        for batch in dataset.batch(1024):
            yield from batch.numpy()

    def documents(
        self, config: CorpusConfig, counts: corpus.Counts
    ) -> Iterator[list[str]]:
        """Reads all documents, duplicates included."""
        limit = corpus.MAX_DOCUMENT_CHARACTERS
        if config.packing == "original":
            limit = ORIGINAL_MAX_CHARACTERS
        return corpus.read_documents(
            self.sources, config, counts, max_characters=limit
        )


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


def write_hashes(
    shard: Shard, *, config: CorpusConfig, num_threads: int = 0
) -> None:
    """Writes the hashes of the documents of a shard."""
    tf.io.gfile.makedirs(shard.directory)
    hashes = (
        deduplication.document_hash(lines, do_lower_case=config.do_lower_case)
        for lines in shard.documents(config, corpus.Counts())
    )
    files.atomic_write_bytes(shard.path("hashes"), b"".join(hashes))


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
        shard.documents(config, read), shard.dropped, read
    )
    documents = splitter.assign(documents)
    summary = pack(documents, shard, config, vocabulary, num_threads)
    summary["read"] = read
    summary["splits"] = sorted(splitter.splits)
    summary["undecided"] = splitter.undecided
    files.write_json(shard.path("summary.json"), summary)


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
            writers = {}
            for kind in kinds(data_set):
                writer = tf.io.TFRecordWriter(shard.path(str(kind)))
                writers[kind] = stack.enter_context(writer)
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
