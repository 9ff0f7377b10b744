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


class BeamEngine:
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
        num_records: Mapping[str, list[int]],
        paths: Mapping[str, list[str]],
    ) -> None:
        """Groups the records by file, and writes file by file."""
        starts = {
            name: [0, *itertools.accumulate(num_records[name])]
            for name in paths
        }
        numbered = [
            (number, shard, {name: starts[name][number] for name in paths})
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
    numbered: tuple[int, Shard, Mapping[str, int]],
    paths: Mapping[str, list[str]],
) -> Iterator[tuple[str, tuple[int, list[bytes]]]]:
    """Yields the records of a shard for each file, keyed by its path."""
    number, shard, starts = numbered
    for name, files in paths.items():
        records = list(shard.records(name))
        for i, path in enumerate(files):
            first = (i - starts[name]) % len(files)
            if chosen := records[first :: len(files)]:
                yield path, (number, chosen)


def _write_file(path: str, pieces: Iterable[tuple[int, list[bytes]]]) -> None:
    """Writes a file from its records in all shards, the shards in order."""
    with tf.io.TFRecordWriter(path) as writer:
        for _, records in sorted(pieces, key=operator.itemgetter(0)):
            for record in records:
                writer.write(record)
