"""The steps of a build on Apache Beam, for corpora beyond one machine.

Workers read the corpus and write the parts of the data set, so that both must
lie where all of them can: in a store, or on a disk that they share. Every part
is made by the functions that a build on one machine uses, and has the same
records.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import deduplication
from electra_tf.data import shards as parts_lib
from electra_tf.data.engines import Report
from electra_tf.data.record_format import Kind, ShardWriter
from electra_tf.data.shards import Part
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

_DROPPED = ".dropped"
_ERROR = ".error"


class BeamEngine:
    """A runner of Apache Beam.

    Args:
      runner: its name: "DirectRunner" for this machine, "DataflowRunner",
        "FlinkRunner", "SparkRunner" and others.
      options: of the runner, as "--project=NAME". One without dashes goes on
        with the one before it after a comma.

    Attributes:
      options: all of them, as Beam gets them.

    Raises:
      UserError: if Beam is not installed.
    """

    def __init__(self, runner: str, options: Sequence[str] = ()) -> None:
        try:
            import apache_beam as beam
        except ImportError as error:
            raise UserError(
                "`engine=beam` builds with Apache Beam. Received: an "
                "installation without it. Run: python -m pip install "
                "'electra_tf[beam]'"
            ) from error
        self._beam = beam
        self.options = [f"--runner={runner}"]
        for option in options:
            if option.startswith("-"):
                self.options.append(option)
            else:
                self.options[-1] += f",{option}"

    def find_duplicates(
        self, parts: list[Part], config: CorpusConfig, report: Report
    ) -> list[bytes]:
        """Groups the documents of all parts by their hashes."""
        del report  # the runner tells
        beam = self._beam
        paths = [part.directory + _DROPPED for part in parts]
        for path in filter(storage.exists, paths):
            storage.remove(path)  # of another corpus with this part
        with self._pipeline() as pipeline:
            _ = (
                pipeline
                | "Parts" >> beam.Create(list(enumerate(parts)))
                | "Spread" >> beam.Reshuffle()
                | "Hash" >> beam.FlatMap(_hashes, config)
                | "Group equal" >> beam.GroupByKey()
                | "Find later" >> beam.FlatMap(_later)
                | "Group by part" >> beam.GroupByKey()
                | "Write" >> beam.Map(_write_dropped, paths)
            )
        _raise_error(parts)
        return [
            storage.read_bytes(path) if storage.exists(path) else b""
            for path in paths
        ]

    def build(
        self,
        parts: list[Part],
        config: CorpusConfig,
        vocabulary: Vocabulary,
        report: Report,
    ) -> None:
        """Builds part by part, on many machines."""
        del report
        beam = self._beam
        missing = [part for part in parts if not part.is_done]
        with self._pipeline() as pipeline:
            _ = (
                pipeline
                | "Parts" >> beam.Create(missing)
                | "Spread" >> beam.Reshuffle()
                | "Build" >> beam.Map(_build, config, vocabulary)
            )
        _raise_error(missing)

    def deal_out(
        self,
        parts: list[Part],
        writers: Mapping[Kind, ShardWriter],
        numbers: Mapping[Kind, list[int]],
        report: Report,
    ) -> None:
        """Groups the records by their files, and writes file by file."""
        del report
        beam = self._beam
        starts = [[0, *itertools.accumulate(numbers[kind])] for kind in writers]
        numbered = [
            (number, part, [each[number] for each in starts])
            for number, part in enumerate(parts)
        ]
        places = {}
        for kind_number, writer in enumerate(writers.values()):
            writer.num_records = starts[kind_number][-1]
            for shard in range(min(writer.num_shards, writer.num_records)):
                path = writer.unfinished_path(shard)
                places[kind_number, shard] = path
        num_shards = [writer.num_shards for writer in writers.values()]
        with self._pipeline() as pipeline:
            _ = (
                pipeline
                | "Parts" >> beam.Create(numbered)
                | "Spread" >> beam.Reshuffle()
                | "Deal" >> beam.FlatMap(_deal, list(writers), num_shards)
                | "Group by file" >> beam.GroupByKey()
                | "Write" >> beam.Map(_write_shard, places)
            )

    def _pipeline(self) -> Any:  # noqa: ANN401 (Beam may not be installed)
        from apache_beam.options import pipeline_options

        options = pipeline_options.PipelineOptions(self.options)
        return self._beam.Pipeline(options=options)


def _hashes(
    numbered: tuple[int, Part], config: CorpusConfig
) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yields the hash of each document of a part, with its place."""
    part_number, part = numbered
    try:
        hashes = parts_lib.document_hashes(part, config)
        for number, document_hash in enumerate(hashes):
            yield document_hash, (part_number, number)
    except UserError as error:
        _note_error(part, error)


def _later(
    group: tuple[bytes, Iterable[tuple[int, int]]],
) -> Iterator[tuple[int, int]]:
    """Yields the places of equal documents but for the first."""
    first = min(group[1])
    yield from (place for place in group[1] if place != first)


def _write_dropped(
    group: tuple[int, Iterable[int]], paths: Sequence[str]
) -> None:
    """Writes which documents of a part are left out."""
    part_number, numbers = group
    numbers = np.fromiter(numbers, np.int64)
    bits = np.zeros(numbers.max() // 8 + 1, np.uint8)
    deduplication.mark(bits, numbers)
    _write(paths[part_number], bits.tobytes())


def _build(part: Part, config: CorpusConfig, vocabulary: Vocabulary) -> None:
    """Builds a part; one core of many does."""
    try:
        parts_lib.build(part, config, vocabulary, num_threads=1)
    except UserError as error:
        _note_error(part, error)


def _deal(
    numbered: tuple[int, Part, list[int]],
    kinds: list[Kind],
    num_shards: list[int],
) -> Iterator[tuple[tuple[int, int], tuple[int, list[bytes]]]]:
    """Yields the records of a part for each file.

    Args:
      numbered: number of the part, the part, and how many records of each
        kind the parts before it have.
      kinds: of records.
      num_shards: files of each kind; a file gets every so manieth record.

    Yields:
      The numbers of kind and file, the number of the part, the records.
    """
    part_number, part, starts = numbered
    for number, (kind, start, step) in enumerate(
        zip(kinds, starts, num_shards, strict=True)
    ):
        records = list(part.records(kind))
        for shard in range(step):
            if chosen := records[(shard - start) % step :: step]:
                yield (number, shard), (part_number, chosen)


def _write_shard(
    group: tuple[tuple[int, int], Iterable[tuple[int, list[bytes]]]],
    places: Mapping[tuple[int, int], str],
) -> None:
    """Writes a file, the parts in order."""
    place, pieces = group
    with tf.io.TFRecordWriter(places[place]) as writer:
        for _, records in sorted(pieces):
            for record in records:
                writer.write(record)


def _note_error(part: Part, error: UserError) -> None:
    """Leaves an error to be found: runners change its type and text."""
    _write(part.directory + _ERROR, str(error).encode())


def _write(path: str, content: bytes) -> None:
    """Writes a file where no worker may have written one before."""
    storage.make_directories(os.path.dirname(path))
    files.atomic_write_bytes(path, content)


def _raise_error(parts: Iterable[Part]) -> None:
    """Raises the first error that was left."""
    for part in parts:
        path = part.directory + _ERROR
        if storage.exists(path):
            text = storage.read_bytes(path).decode()
            storage.remove(path)
            raise UserError(text)
