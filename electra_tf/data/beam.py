"""Builds records on Apache Beam, for corpora beyond one machine.

Corpus and shards must lie where all workers have access: in a store, or on a
disk that they share. The records are those of a build on one machine.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from electra_tf.data.build import Shard
from electra_tf.data.records import RecordKind


class BeamEngine:
    """Runs a build on Apache Beam."""

    def __init__(self, runner: str, options: Sequence[str] = ()) -> None:
        self._options = [f"--runner={runner}"]
        for option in options:  # split at commas, also those inside of values
            if option.startswith("-"):
                self._options.append(option)
            else:
                self._options[-1] += f",{option}"

    def map(
        self, function: Callable[[Shard], None], shards: list[Shard]
    ) -> None:
        options = PipelineOptions(self._options)
        with beam.Pipeline(options=options) as pipeline:
            _ = (
                pipeline
                | beam.Create(shards)
                | beam.Reshuffle()
                | beam.Map(function)
            )

    def distribute(
        self,
        shards: list[Shard],
        num_records: Mapping[RecordKind, list[int]],
        paths: Mapping[RecordKind, list[str]],
    ) -> None:
        """Groups the records by file, and writes file by file."""
        starts = {
            kind: [0, *itertools.accumulate(num_records[kind])]
            for kind in paths
        }
        numbered = [
            (number, shard, {kind: starts[kind][number] for kind in paths})
            for number, shard in enumerate(shards)
        ]
        options = PipelineOptions(self._options)
        with beam.Pipeline(options=options) as pipeline:
            _ = (
                pipeline
                | beam.Create(numbered)
                | beam.Reshuffle()
                | beam.FlatMap(_split_by_file, paths)
                | beam.GroupByKey()
                | beam.MapTuple(_write_file)
            )


def _split_by_file(
    numbered: tuple[int, Shard, Mapping[RecordKind, int]],
    paths: Mapping[RecordKind, list[str]],
) -> Iterator[tuple[str, tuple[int, list[bytes]]]]:
    """Yields the records of a shard for each file, keyed by its path."""
    number, shard, starts = numbered
    for kind, kind_paths in paths.items():
        records = list(shard.records(kind))
        num_files = len(kind_paths)
        for i, path in enumerate(kind_paths):
            if chosen := records[(i - starts[kind]) % num_files :: num_files]:
                yield path, (number, chosen)


def _write_file(path: str, pieces: Iterable[tuple[int, list[bytes]]]) -> None:
    """Writes a file from its records in all shards, the shards in order."""
    with tf.io.TFRecordWriter(path) as writer:
        for _, records in sorted(pieces, key=operator.itemgetter(0)):
            for record in records:
                writer.write(record)
