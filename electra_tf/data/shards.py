"""The shards that a data set is built from, independently and in any order.

A shard is about `SHARD_BYTES` of the text and the files made from it: the
records of each split, and a summary, written last. Which text belongs to which
shard depends only on the corpus, so that the data set is the same for any
number of processes, and a build that was stopped resumes with the shards that
exist. Their names are fingerprints of text, settings and vocabulary: a shard
made from others is never mistaken for one of them.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, deduplication, packing
from electra_tf.data.corpus import TextSource, split_source
from electra_tf.data.dataset_files import FORMAT_VERSION, SHARDS_DIRECTORY
from electra_tf.data.held_out import Document, Splitter
from electra_tf.data.record_format import RecordKind, kinds
from electra_tf.data.summaries import Summary
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage

SHARD_BYTES = 16 * 2**20
ORIGINAL_MAX_CHARACTERS = 2**24  # the original never cuts a document

HASHES = ".hashes"

_BATCH_RECORDS = 1024
# Settings on which the records of a shard do not depend.
_INDEPENDENT_SETTINGS = (
    "corpus",
    "tfds_data_dir",
    "num_shards",
    "seq_length_phases",
    "vocab_file",
    "vocab_size",
    "vocab_sample_bytes",
    "sentencepiece_model_type",
)

Report = Callable[[corpus.Statistics], None]


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard of a corpus, built or not."""

    sources: tuple[TextSource, ...]
    directory: str
    dropped: bytes = b""

    def without(self, dropped: bytes) -> "Shard":
        """Returns the shard without some documents, under another name."""
        if not any(dropped):
            return self
        digest = hashlib.sha256(dropped).hexdigest()[:16]
        return Shard(self.sources, f"{self.directory}-{digest}", dropped)

    @property
    def num_text_bytes(self) -> int:
        """Approximate size of its text in bytes."""
        return sum(source.num_text_bytes for source in self.sources)

    @property
    def is_done(self) -> bool:
        """Whether it is complete."""
        return storage.exists(self.summary_path)

    @property
    def summary_path(self) -> str:
        """Path of its `Summary`."""
        return os.path.join(self.directory, "summary.json")

    @property
    def hashes_path(self) -> str:
        """Path of the hashes of its documents."""
        return self.directory + HASHES

    def records_path(self, kind: RecordKind) -> str:
        """Returns the path of the records of a kind."""
        name = "-".join(map(str, kind))
        return os.path.join(self.directory, f"{name}.tfrecord")

    def records(self, kind: RecordKind) -> Iterator[bytes]:
        """Yields the records of a kind."""
        dataset = tf.data.TFRecordDataset(self.records_path(kind))
        for batch in dataset.batch(_BATCH_RECORDS):
            yield from batch.numpy()


def plan(
    sources: Iterable[TextSource],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
) -> list[Shard]:
    """Divides a corpus into shards."""
    groups = [tuple(sources)]
    if config.packing != "original":
        groups = list(_group(groups[0], config.blanks_separate_docs))
    settings = dataclasses.asdict(config) | {
        "format_version": FORMAT_VERSION,
        "vocabulary": vocabulary.sha256,
        "lengths": [data_set.max_seq_length for data_set in config.data_sets],
    }
    for name in _INDEPENDENT_SETTINGS:
        del settings[name]
    root = os.path.join(output_dir, SHARDS_DIRECTORY)
    return [
        Shard(group, os.path.join(root, _fingerprint(group, settings)))
        for group in groups
    ]


def build(
    shard: Shard,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    report: Report,
    num_threads: int = 0,
) -> corpus.Statistics:
    """Builds the records of a shard from its text."""
    summary = Summary.empty(len(config.data_sets), vocabulary.size)
    statistics = summary.statistics
    splitter = Splitter(config.held_out_fraction, config.data_seed)
    documents = deduplication.without_duplicates(
        _read(shard, config, statistics), shard.dropped, statistics
    )
    with _writers(shard, config) as writers:
        packing.pack(
            splitter.assign(documents),
            config,
            vocabulary,
            writers,
            summary,
            num_threads=num_threads,
            report=lambda: report(statistics),
        )
    report(statistics)
    summary.splits, summary.undecided = splitter.splits, splitter.undecided
    summary.write(shard.summary_path)
    return statistics


def build_undecided(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
) -> Shard:
    """Builds a shard of the documents whose split was decided last."""
    root = os.path.join(output_dir, SHARDS_DIRECTORY)
    shard = Shard((), os.path.join(root, "undecided"))
    summary = Summary.empty(len(config.data_sets), vocabulary.size)
    with _writers(shard, config) as writers:
        packing.pack(documents, config, vocabulary, writers, summary)
    summary.write(shard.summary_path)
    return shard


def write_hashes(
    shard: Shard, config: CorpusConfig, *, report: Report
) -> corpus.Statistics:
    """Writes the hashes of the documents of a shard to its `hashes_path`."""
    statistics = corpus.Statistics()

    def hashes() -> Iterator[bytes]:
        for lines in _read(shard, config, statistics):
            yield deduplication.document_hash(
                lines, do_lower_case=config.do_lower_case
            )
            report(statistics)

    storage.make_directories(os.path.dirname(shard.directory))
    deduplication.write_hashes(shard.hashes_path, hashes())
    report(statistics)
    return statistics


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


def _group(
    sources: Iterable[TextSource], blanks_separate_docs: bool
) -> Iterator[tuple[TextSource, ...]]:
    """Splits large sources and joins small ones."""
    group: list[TextSource] = []
    size = 0
    for source in sources:
        for piece in split_source(
            source, SHARD_BYTES, blanks_separate_docs=blanks_separate_docs
        ):
            num_bytes = piece.num_text_bytes
            if group and size + num_bytes > SHARD_BYTES:
                yield tuple(group)
                group, size = [], 0
            group.append(piece)
            size += num_bytes
    yield tuple(group)


def _fingerprint(
    sources: tuple[TextSource, ...], settings: dict[str, Any]
) -> str:
    content = [
        [*dataclasses.astuple(source), *_version(source.path)]
        for source in sources
    ]
    text = json.dumps([content, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _version(path: str) -> list[int]:
    """Returns numbers that change when a source does."""
    return storage.version(path) if storage.exists(path) else []  # the demo


@contextlib.contextmanager
def _writers(shard: Shard, config: CorpusConfig) -> Iterator[packing.Writers]:
    """Opens writers of the records; on exit all records are synced to disk."""
    storage.make_directories(shard.directory)
    paths = {kind: shard.records_path(kind) for kind in kinds(config)}
    with contextlib.ExitStack() as stack:
        yield {
            kind: stack.enter_context(tf.io.TFRecordWriter(path))
            for kind, path in paths.items()
        }
    for path in paths.values():
        files.sync(path)
