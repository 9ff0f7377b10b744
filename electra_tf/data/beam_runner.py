"""The runner of a build on Apache Beam, for corpora beyond one machine.

Workers read the corpus and write shards, so that both must lie where all
workers have access: in a store, or on a disk that they share. Every shard is
built by the functions that a build on one machine uses, and has the same
records.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from electra_tf.data.dataset_files import RecordWriter
from electra_tf.data.record_format import RecordKind
from electra_tf.data.runners import Job, ReportRecords, ReportText
from electra_tf.data.shards import Shard
from electra_tf.util import files, optional_packages, storage
from electra_tf.util.errors import UserError


class BeamRunner:
    """Runs a build on Apache Beam."""

    def __init__(self, runner: str, options: Sequence[str] = ()) -> None:
        self._beam = optional_packages.load("apache_beam", "beam")
        self.options = [f"--runner={runner}"]
        for option in options:
            if option.startswith("-"):
                self.options.append(option)
            else:
                self.options[-1] += f",{option}"

    def map_shards(
        self, job: Job, shards: list[Shard], report: ReportText
    ) -> None:
        """Maps a job over shards on many machines."""
        del report  # Beam's runner has its own
        beam = self._beam
        with self._pipeline() as pipeline:
            _ = (
                pipeline
                | "Shards" >> beam.Create(shards)
                | "Spread" >> beam.Reshuffle()
                | job.step.title() >> beam.Map(_do_job, job)
            )
        _raise_error(shards)

    def distribute_records(
        self,
        shards: list[Shard],
        writers: Mapping[RecordKind, RecordWriter],
        num_records: Mapping[RecordKind, list[int]],
        report: ReportRecords,
    ) -> None:
        """Groups the records by their files, and writes file by file."""
        del report
        beam = self._beam
        starts = [
            [0, *itertools.accumulate(num_records[kind])] for kind in writers
        ]
        numbered = [
            (number, shard, [each[number] for each in starts])
            for number, shard in enumerate(shards)
        ]
        paths = {}
        for kind_number, writer in enumerate(writers.values()):
            writer.num_records = starts[kind_number][-1]
            for number in range(min(writer.num_files, writer.num_records)):
                paths[kind_number, number] = writer.unfinished_path(number)
        num_files = [writer.num_files for writer in writers.values()]
        with self._pipeline() as pipeline:
            _ = (
                pipeline
                | "Shards" >> beam.Create(numbered)
                | "Spread" >> beam.Reshuffle()
                | "Split"
                >> beam.FlatMap(_split_by_file, list(writers), num_files)
                | "Group by file" >> beam.GroupByKey()
                | "Write" >> beam.Map(_write_file, paths)
            )

    def _pipeline(self) -> Any:  # noqa: ANN401 (Beam may not be installed)
        from apache_beam.options import pipeline_options

        options = pipeline_options.PipelineOptions(self.options)
        try:
            return self._beam.Pipeline(options=options)
        except ValueError as error:
            raise UserError(
                "`runner` and `beam_options` must be what Beam accepts, each "
                "option with its dashes. Received: "
                f"{' '.join(self.options)}: {error} Correct --runner or "
                "--beam_options."
            ) from error


def _do_job(shard: Shard, job: Job) -> None:
    """Does a job for a shard on one core of a worker."""
    try:
        job.do(shard, num_threads=1)
    except UserError as error:
        path = _error_path(shard)
        storage.make_directories(os.path.dirname(path))
        files.atomic_write_bytes(path, str(error).encode())


def _raise_error(shards: Iterable[Shard]) -> None:
    """Raises the first error that a worker wrote to a file."""
    for shard in shards:
        path = _error_path(shard)
        if storage.exists(path):
            text = storage.read_bytes(path).decode()
            storage.remove(path)
            raise UserError(text)


def _error_path(shard: Shard) -> str:
    return shard.directory + ".error"


def _split_by_file(
    numbered: tuple[int, Shard, list[int]],
    kinds: list[RecordKind],
    num_files: list[int],
) -> Iterator[tuple[tuple[int, int], tuple[int, list[bytes]]]]:
    """Yields the records of a shard for each file, keyed by kind and file."""
    shard_number, shard, starts = numbered
    for number, (kind, start, step) in enumerate(
        zip(kinds, starts, num_files, strict=True)
    ):
        records = list(shard.records(kind))
        for file in range(step):
            if chosen := records[(file - start) % step :: step]:
                yield (number, file), (shard_number, chosen)


def _write_file(
    group: tuple[tuple[int, int], Iterable[tuple[int, list[bytes]]]],
    paths: Mapping[tuple[int, int], str],
) -> None:
    """Writes a file from its records in all shards, the shards in order."""
    place, pieces = group
    with tf.io.TFRecordWriter(paths[place]) as writer:
        for _, records in sorted(pieces):
            for record in records:
                writer.write(record)
