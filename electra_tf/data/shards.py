"""The parts that a data set is built from, one by one and in any order.

A part is what becomes of some of the text, about `PART_BYTES` of it: the
records of each split, and a summary, written last. Which text belongs to which
part depends on the corpus alone, so that the data set is the same for any
number of processes, and a build that was stopped goes on with the parts that
are there. Their names tell of text, settings and vocabulary: what was made
from others is never taken for them.
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
from electra_tf.data.held_out import Document, Splitter
from electra_tf.data.lengths import Lengths
from electra_tf.data.packing import Packed
from electra_tf.data.record_format import (
    FORMAT_VERSION,
    PARTS,
    PREFIXES,
    Kind,
    kinds,
)
from electra_tf.data.sources import Source, split
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage

PART_BYTES = 16 * 2**20
ORIGINAL_MAX_CHARACTERS = 2**24  # the original never cuts a document

HASHES = ".hashes"

_SUMMARY = "summary.json"
_BATCH_RECORDS = 1024
# Settings of which records do not depend.
_FREE = (
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
class Part:
    """A part of a data set, made or not.

    Attributes:
      sources: its text.
      directory: its files.
      dropped: tells which of its documents are left out, see
        `duplicates.leave_out`.
    """

    sources: tuple[Source, ...]
    directory: str
    dropped: bytes = b""

    def without(self, dropped: bytes) -> "Part":
        """Returns the part that lacks some documents, of another name."""
        if not any(dropped):
            return self
        digest = hashlib.sha256(dropped).hexdigest()[:16]
        return Part(self.sources, f"{self.directory}-{digest}", dropped)

    @property
    def num_text_bytes(self) -> int:
        """About how many bytes of text it has."""
        return sum(source.num_text_bytes for source in self.sources)

    @property
    def is_done(self) -> bool:
        """Whether it is complete."""
        return storage.exists(os.path.join(self.directory, _SUMMARY))

    def path(self, kind: Kind) -> str:
        """Returns the path of the records of a kind."""
        name = "-".join(map(str, kind))
        return os.path.join(self.directory, f"{name}.tfrecord")

    def records(self, kind: Kind) -> Iterator[bytes]:
        """Yields the records of a kind."""
        dataset = tf.data.TFRecordDataset(self.path(kind))
        for batch in dataset.batch(_BATCH_RECORDS):
            yield from batch.numpy()


@dataclasses.dataclass(frozen=True)
class Summary:
    """What became of the text of a part.

    Attributes:
      statistics: of the reading.
      packed: what became of it in each data set.
      lengths: of the documents of each split.
      splits: that it has documents of.
      waiting: documents whose split depends on other parts.
    """

    statistics: dict[str, int]
    packed: list[Packed]
    lengths: dict[str, Lengths]
    splits: list[str]
    waiting: list[Document]

    def num_records(self, kind: Kind) -> int:
        """Returns how many records of a kind there are."""
        return sum(packed.counts.get(kind.counter, 0) for packed in self.packed)

    @classmethod
    def of(cls, part: Part) -> "Summary":
        """Reads the summary of a part that is done."""
        values = files.read_json(os.path.join(part.directory, _SUMMARY))
        waiting = [Document(*document) for document in values.pop("waiting")]
        packed = [Packed(*packed) for packed in values.pop("packed")]
        lengths = {
            name: Lengths(**each)
            for name, each in values.pop("lengths").items()
        }
        return cls(**values, packed=packed, lengths=lengths, waiting=waiting)


def plan(
    sources: Iterable[Source],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
) -> list[Part]:
    """Divides a corpus into parts.

    Args:
      sources: of the corpus.
      config: how it is read and packed.
      vocabulary: of its tokens.
      output_dir: of the data set.

    Returns:
      The parts. With the original's packing, which goes from document to
      document, there is but one.
    """
    groups = [tuple(sources)]
    if config.packing != "original":
        groups = list(_group(groups[0], config.blanks_separate_docs))
    settings = dataclasses.asdict(config) | {
        "format_version": FORMAT_VERSION,
        "vocabulary": vocabulary.sha256,
        "lengths": [data_set.max_seq_length for data_set in config.data_sets],
    }
    for name in _FREE:
        del settings[name]
    root = os.path.join(output_dir, PARTS)
    return [
        Part(group, os.path.join(root, _fingerprint(group, settings)))
        for group in groups
    ]


def build(
    part: Part,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    report: Report = lambda _: None,
    num_threads: int = 0,
) -> corpus.Statistics:
    """Makes a part from its text.

    Args:
      part: which.
      config: how to read and pack it.
      vocabulary: of its tokens.
      report: called now and then with what was read.
      num_threads: see `packing.pack`.

    Returns:
      What was read.
    """
    statistics = corpus.Statistics()
    splitter = Splitter(config.held_out_fraction, config.data_seed)
    documents = deduplication.leave_out(
        _read(part, config, statistics), part.dropped, statistics
    )
    lengths = _no_lengths()
    packed = _write(
        part,
        splitter.assign(documents),
        config,
        vocabulary,
        lengths,
        num_threads=num_threads,
        report=lambda: report(statistics),
    )
    report(statistics)
    _finish(
        part,
        Summary(
            dataclasses.asdict(statistics),
            packed,
            lengths,
            sorted(splitter.splits),
            splitter.waiting,
        ),
        config,
    )
    return statistics


def write_hashes(
    part: Part,
    config: CorpusConfig,
    *,
    report: Report = lambda _: None,
) -> corpus.Statistics:
    """Writes the hashes of the documents of a part to `hashes_path`.

    Args:
      part: which.
      config: how to read it.
      report: called now and then with what was read.

    Returns:
      What was read.
    """
    statistics = corpus.Statistics()
    hashes = document_hashes(part, config, statistics, report=report)
    storage.make_directories(os.path.dirname(part.directory))
    deduplication.write(hashes_path(part), hashes)
    report(statistics)
    return statistics


def document_hashes(
    part: Part,
    config: CorpusConfig,
    statistics: corpus.Statistics | None = None,
    *,
    report: Report = lambda _: None,
) -> Iterator[bytes]:
    """Yields the hashes of the documents of a part.

    Args:
      part: which.
      config: how to read it.
      statistics: counts what is read.
      report: called now and then with them.
    """
    statistics = statistics or corpus.Statistics()
    for lines in _read(part, config, statistics):
        yield deduplication.document_hash(
            lines, do_lower_case=config.do_lower_case
        )
        report(statistics)


def hashes_path(part: Part) -> str:
    """Returns the file of the hashes of a part that has all its documents."""
    return part.directory + HASHES


def build_of_documents(
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    output_dir: str,
) -> Part:
    """Makes a part from documents.

    Args:
      documents: with their splits.
      config: how to pack them.
      vocabulary: of the tokens.
      output_dir: of the data set.
    """
    part = Part((), os.path.join(output_dir, PARTS, "waiting"))
    lengths = _no_lengths()
    packed = _write(part, documents, config, vocabulary, lengths)
    statistics = dataclasses.asdict(corpus.Statistics())
    _finish(part, Summary(statistics, packed, lengths, [], []), config)
    return part


def _no_lengths() -> dict[str, Lengths]:
    return {split_name: Lengths() for split_name in PREFIXES}


def _read(
    part: Part, config: CorpusConfig, statistics: corpus.Statistics
) -> Iterator[list[str]]:
    """Yields the documents of a part, with those that are left out."""
    return corpus.read(
        part.sources,
        blanks_separate_docs=config.blanks_separate_docs,
        statistics=statistics,
        max_characters=(
            ORIGINAL_MAX_CHARACTERS
            if config.packing == "original"
            else corpus.MAX_DOCUMENT_CHARACTERS
        ),
        options=corpus.Options.of(config),
    )


def _group(
    sources: Iterable[Source], blanks_separate_docs: bool
) -> Iterator[tuple[Source, ...]]:
    """Splits large sources and joins small ones."""
    group: list[Source] = []
    size = 0
    for source in sources:
        for piece in split(
            source, PART_BYTES, blanks_separate_docs=blanks_separate_docs
        ):
            num_bytes = piece.num_text_bytes
            if group and size + num_bytes > PART_BYTES:
                yield tuple(group)
                group, size = [], 0
            group.append(piece)
            size += num_bytes
    yield tuple(group)


def _fingerprint(sources: tuple[Source, ...], settings: dict[str, Any]) -> str:
    content = [
        [*dataclasses.astuple(source), *_version(source.path)]
        for source in sources
    ]
    text = json.dumps([content, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _version(path: str) -> list[int]:
    """Returns what changes when a source does."""
    return storage.version(path) if storage.exists(path) else []  # the demo


def _write(
    part: Part,
    documents: Iterable[Document],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    lengths: dict[str, Lengths],
    *,
    num_threads: int = 0,
    report: Callable[[], None] = lambda: None,
) -> list[Packed]:
    storage.make_directories(part.directory)
    with contextlib.ExitStack() as stack:
        writers = {
            kind: stack.enter_context(tf.io.TFRecordWriter(part.path(kind)))
            for kind in kinds(config)
        }
        return packing.pack(
            documents,
            config,
            vocabulary,
            writers,
            lengths=lengths,
            num_threads=num_threads,
            report=report,
        )


def _finish(part: Part, summary: Summary, config: CorpusConfig) -> None:
    for kind in kinds(config):
        files.sync(part.path(kind))
    path = os.path.join(part.directory, _SUMMARY)
    files.write_json(path, dataclasses.asdict(summary))
