"""Runners of the steps of a build, and the one for this machine.

A build maps shards and then distributes their records over the files of a data
set. `LocalRunner` does both on this machine, `beam_runner.BeamRunner` on many,
with the same bytes as the result.

Processes are spawned, because a fork of a process with TensorFlow's threads may
hang. This module does not import TensorFlow: each process does so after it has
silenced TensorFlow's log messages.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.corpus import Statistics
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console
from electra_tf.util.errors import ExitCode, UserError, explain
from electra_tf.util.machine import num_cores

if TYPE_CHECKING:  # they import TensorFlow
    from electra_tf.data.dataset_files import RecordWriter
    from electra_tf.data.record_format import RecordKind
    from electra_tf.data.shards import Shard

SECONDS_BETWEEN_REPORTS = 0.5
SHARDS_PER_PROCESS = 4  # at least, if the number of processes is not given

ReportText = Callable[[int, int], None]  # documents and bytes read so far
ReportRecords = Callable[[int, int], None]  # records written, and their total


class Job(NamedTuple):
    """A job for each shard: to write its hashes, or to build its records."""

    step: str
    config: CorpusConfig
    vocabulary: Vocabulary

    def do(
        self,
        shard: "Shard",
        *,
        report: Callable[[Statistics], None] = lambda _: None,
        num_threads: int = 0,
    ) -> Statistics:
        """Does the job for one shard; imports TensorFlow."""
        from electra_tf.data import shards

        if self.step == "hash":
            return shards.write_hashes(shard, self.config, report=report)
        return shards.build(
            shard,
            self.config,
            self.vocabulary,
            report=report,
            num_threads=num_threads,
        )


class Runner(Protocol):
    """Runs the two steps of a build that read all of a corpus."""

    def map_shards(
        self, job: Job, shards: "list[Shard]", report: ReportText
    ) -> None:
        """Maps a job over shards, in any order."""

    def distribute_records(
        self,
        shards: "list[Shard]",
        writers: "Mapping[RecordKind, RecordWriter]",
        num_records: "Mapping[RecordKind, list[int]]",
        report: ReportRecords,
    ) -> None:
        """Writes the records of all shards to the files of a data set."""


class LocalRunner:
    """Runs a build in processes of this machine."""

    def __init__(self, num_processes: int) -> None:
        self._num_processes = num_processes

    def map_shards(
        self, job: Job, shards: "list[Shard]", report: ReportText
    ) -> None:
        """Maps a job in several processes, or in this one."""
        number = self._num_processes
        if not number:  # each takes seconds to start
            number = min(num_cores(), len(shards) // SHARDS_PER_PROCESS)
        number = min(number, len(shards))
        if number > 1:
            _run_processes(job, shards, number, report)
            return
        before = Statistics()  # of the shards that are done
        for shard in shards:
            statistics = job.do(
                shard,
                report=lambda now: report(
                    before.documents + now.documents,
                    before.text_bytes + now.text_bytes,
                ),
            )
            before.add(statistics)

    def distribute_records(
        self,
        shards: "list[Shard]",
        writers: "Mapping[RecordKind, RecordWriter]",
        num_records: "Mapping[RecordKind, list[int]]",
        report: ReportRecords,
    ) -> None:
        """Writes record by record in this process."""
        total = sum(sum(num_records[kind]) for kind in writers)
        num_written = 0
        for number, shard in enumerate(shards):
            for kind, writer in writers.items():
                for record in shard.records(kind):
                    writer.write(record)
                num_written += num_records[kind][number]
            report(num_written, total)


class _Outcome(NamedTuple):
    """The error message and exit code of a job for a shard; "" if done."""

    error: str = ""
    code: ExitCode = ExitCode.DONE


class _SharedState(NamedTuple):
    """State that all processes share."""

    job: Job
    shards: Any
    outcomes: Any
    totals: Any


def _run_processes(
    job: Job, shards: "list[Shard]", num_processes: int, report: ReportText
) -> None:
    """Maps a job over shards in several processes; raises their errors."""
    context = multiprocessing.get_context("spawn")
    ordered = sorted(shards, key=lambda shard: -shard.num_text_bytes)
    shared = _SharedState(
        job, context.Queue(), context.Queue(), context.Array("q", 2)
    )
    for shard in [*ordered, *[None] * num_processes]:
        shared.shards.put(shard)
    with _started(context, shared, num_processes) as processes:
        for _ in shards:
            outcome = _next_outcome(shared, processes, report)
            if outcome.code == ExitCode.ERROR:
                raise RuntimeError(outcome.error)
            if outcome.error:
                error = UserError(outcome.error)
                error.exit_code = outcome.code
                raise error
    report(*shared.totals)


@contextlib.contextmanager
def _started(
    context: multiprocessing.context.SpawnContext,
    shared: _SharedState,
    number: int,
) -> Iterator[list[SpawnProcess]]:
    """Starts processes, and ends them in any case."""
    processes = [
        context.Process(target=_run_worker, args=(shared,), daemon=True)
        for _ in range(number)
    ]
    try:
        with _without_interrupts():
            for process in processes:
                process.start()
        yield processes
    finally:
        shared.shards.cancel_join_thread()
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keeps Ctrl-C from the processes started inside: their parent ends
    them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _next_outcome(
    shared: _SharedState, processes: list[SpawnProcess], report: ReportText
) -> _Outcome:
    """Waits for the outcome of a shard or the failure of a process."""
    while True:
        report(*shared.totals)
        try:
            return shared.outcomes.get(timeout=SECONDS_BETWEEN_REPORTS)
        except queue.Empty:
            codes = [process.exitcode for process in processes]
        if failed := [code for code in codes if code]:
            is_killed = failed[0] == -signal.SIGKILL
            advice = " (usually out of memory). Lower --num_processes"
            text = (
                f"A worker process died with exit code {failed[0]}"
                f"{advice * is_killed}. Finished shards are kept; run the same "
                "command to resume."
            )
            memory = ExitCode.OUT_OF_MEMORY
            return _Outcome(text, memory if is_killed else ExitCode.ERROR)


def _run_worker(shared: _SharedState) -> None:
    """Runs in a process of the pool: takes shards until there are no more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with console.quiet_imports():
        import tensorflow as tf

        import electra_tf.data.shards  # noqa: F401 (those of the queue)
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    while (shard := shared.shards.get()) is not None:
        seen = [0, 0]

        def report(now: Statistics, seen: list[int] = seen) -> None:
            read = [now.documents, now.text_bytes]
            with shared.totals.get_lock():
                for i in range(2):
                    shared.totals[i] += read[i] - seen[i]
            seen[:] = read

        try:
            shared.job.do(shard, report=report, num_threads=1)
        except Exception as error:
            code, text = explain(error)
            text = text or traceback.format_exc()
            shared.outcomes.put(_Outcome(text, code))
        else:
            shared.outcomes.put(_Outcome())


def _end_with_parent() -> None:
    """Ends this process when its parent ends, for whatever reason."""
    multiprocessing.parent_process().join()
    os._exit(1)
