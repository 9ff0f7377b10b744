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
from electra_tf.data.corpus import TextSource, split_source
from electra_tf.data.records import RecordKind, kinds
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files

SHARD_BYTES = 16 * 2**20  # of text
ORIGINAL_MAX_CHARACTERS = 2**24  # the original never cuts a document
SUMMARY = "summary.json"


class Shard(NamedTuple):
    """A part of the corpus, and where its records and counts are written."""

    sources: tuple[TextSource, ...]
    directory: str
    dropped: bytes = b""  # a bit for each document

    @property
    def num_text_bytes(self) -> int:
        """Approximate size of the text."""
        return sum(source.num_text_bytes for source in self.sources)

    @property
    def hashes_path(self) -> str:
        """File of the hashes of the documents."""
        return f"{self.directory}.hashes"

    def records(self, kind: RecordKind) -> Iterator[bytes]:
        """Yields the records of a kind."""
        path = os.path.join(self.directory, str(kind))
        for batch in tf.data.TFRecordDataset(path).batch(1024):
            yield from batch.numpy()


def divide(
    sources: Iterable[TextSource], config: CorpusConfig
) -> Iterator[tuple[TextSource, ...]]:
    """Splits large sources and joins small ones, to shards."""
    if config.packing == "original":  # its state goes from document to document
        yield tuple(sources)
        return
    group: list[TextSource] = []
    size = 0
    for source in sources:
        for piece in split_source(
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
    shard: Shard, config: CorpusConfig, statistics: corpus.Statistics
) -> Iterator[list[str]]:
    """Yields all documents of a shard, duplicates included."""
    return corpus.read_documents(
        shard.sources,
        config,
        statistics=statistics,
        max_characters=(
            ORIGINAL_MAX_CHARACTERS
            if config.packing == "original"
            else corpus.MAX_DOCUMENT_CHARACTERS
        ),
        must_have_text=False,
    )


def write_hashes(
    shard: Shard, *, config: CorpusConfig, num_threads: int = 0
) -> None:
    """Writes the hashes of the documents of a shard."""
    del num_threads
    documents = _read(shard, config, corpus.Statistics())
    hashes = (
        deduplication.document_hash(lines, do_lower_case=config.do_lower_case)
        for lines in documents
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
    statistics = corpus.Statistics()
    splitter = held_out.Splitter(config.held_out_fraction, config.data_seed)
    documents = deduplication.without_duplicates(
        _read(shard, config, statistics), shard.dropped, statistics
    )
    packers = pack(
        splitter.assign(documents), shard, config, vocabulary, num_threads
    )
    write_summary(
        shard,
        packers,
        statistics=vars(statistics),
        splits=sorted(splitter.splits),
        undecided=splitter.undecided,
    )


def pack(
    documents: Iterable[held_out.Document],
    shard: Shard,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    num_threads: int = 0,
) -> list[packing.Packer]:
    """Tokenizes documents once and packs them for each data set."""
    tf.io.gfile.makedirs(shard.directory)
    with contextlib.ExitStack() as stack:
        packers = []
        for data_set in config.data_sets:
            writers = {
                kind: stack.enter_context(
                    tf.io.TFRecordWriter(
                        os.path.join(shard.directory, str(kind))
                    )
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
    return packers


def write_summary(
    shard: Shard,
    packers: list[packing.Packer],
    **values: Any,  # noqa: ANN401
) -> None:
    values["counts"] = [packer.counts for packer in packers]
    values["unigrams"] = [packer.unigrams.tolist() for packer in packers]
    files.write_json(os.path.join(shard.directory, SUMMARY), values)
