"""Parts built, or their documents hashed, by several processes.

They are started afresh, as a fork of a process with TensorFlow's threads may
hang. This module imports no TensorFlow: each of them does when it has turned
its notes away.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.sources import Source
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console
from electra_tf.util.errors import ExitCode, UserError, explain

SECONDS_BETWEEN_REPORTS = 0.5

Report = Callable[[int, int], None]  # documents and bytes of text


class _Outcome(NamedTuple):
    """What became of a part.

    Attributes:
      error: what went wrong; "" for nothing.
      code: what it stands for.
    """

    error: str = ""
    code: ExitCode = ExitCode.DONE


class _PartError(UserError):
    """A part could not be built, as its process says."""

    def __init__(self, outcome: _Outcome) -> None:
        super().__init__(outcome.error)
        self.exit_code = outcome.code


class Job(NamedTuple):
    """What is done to parts.

    Attributes:
      step: "hash" for the hashes of their documents, or "build".
      config: of the corpus.
      vocabulary: of its tokens; None where only hashes are asked for.
    """

    step: str
    config: CorpusConfig
    vocabulary: Vocabulary | None

    def do(
        self,
        part: Any,  # noqa: ANN401 (a `Part`)
        report: Callable[[Any], None],
        num_threads: int = 0,
    ) -> Any:  # noqa: ANN401
        """Does it to one part; imports TensorFlow.

        Args:
          part: a `Part`.
          report: see `shards.build`.
          num_threads: likewise.

        Returns:
          The `Statistics` of what was read.
        """
        from electra_tf.data import shards

        if self.step == "hash":
            return shards.write_hashes(part, self.config, report=report)
        return shards.build(
            part,
            self.config,
            self.vocabulary,
            report=report,
            num_threads=num_threads,
        )


class _Shared(NamedTuple):
    """What all processes know.

    Attributes:
      job: what is done.
      shards: the fields of all `Part`s it is done to; not themselves, as to
        read one is to import TensorFlow.
      numbers: queue of the parts to take; None ends a process.
      outcomes: queue of `_Outcome`s.
      totals: array of the documents and bytes that were read.
    """

    job: Job
    shards: list[tuple[tuple[Source, ...], str, bytes]]
    numbers: Any
    outcomes: Any
    totals: Any


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    job: Job, shards: list[Any], num_processes: int, report: Report
) -> None:
    """Does a job with parts, the largest first.

    Args:
      job: what is done.
      shards: `Part`s.
      num_processes: that work at the same time.
      report: called now and then with the numbers read so far.

    Raises:
      UserError: if the text cannot be read or the records be written.
      RuntimeError: if a process failed or was killed.
    """
    context = multiprocessing.get_context("spawn")
    ordered = sorted(shards, key=lambda part: -part.num_text_bytes)
    shared = _Shared(
        job,
        [(part.sources, part.directory, part.dropped) for part in ordered],
        context.Queue(),
        context.Queue(),
        context.Array("q", 2),
    )
    for number in [*range(len(shards)), *[None] * num_processes]:
        shared.numbers.put(number)
    with _started(context, shared, num_processes) as processes:
        for _ in shards:
            outcome = _next_outcome(shared, processes, report)
            if outcome.code == ExitCode.ERROR:
                raise RuntimeError(outcome.error)
            if outcome.error:
                raise _PartError(outcome)
    report(*shared.totals)


@contextlib.contextmanager
def _started(
    context: multiprocessing.context.SpawnContext, shared: _Shared, number: int
) -> Iterator[list[SpawnProcess]]:
    """Starts processes, and ends them whatever happens."""
    processes = [
        context.Process(target=_work, args=(shared,), daemon=True)
        for _ in range(number)
    ]
    try:
        with _without_interrupts():
            for process in processes:
                process.start()
        yield processes
    finally:
        shared.numbers.cancel_join_thread()
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keeps Ctrl-C from the processes started inside: their parent ends them.

    It waits for the end of this in the parent, which then gets it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _next_outcome(
    shared: _Shared, processes: list[SpawnProcess], report: Report
) -> _Outcome:
    """Waits for a part to be built, or a process to be ended."""
    while True:
        report(*shared.totals)
        try:
            return shared.outcomes.get(timeout=SECONDS_BETWEEN_REPORTS)
        except queue.Empty:
            codes = [process.exitcode for process in processes]
        if failed := [code for code in codes if code]:
            text = (
                "A process that built records was ended. Received: exit code "
                f"{failed[0]}; -9 mostly means that memory ran out: lower "
                "--num_processes. What is built is kept; the same command "
                "goes on."
            )
            is_killed = failed[0] == -signal.SIGKILL
            memory = ExitCode.OUT_OF_MEMORY
            return _Outcome(text, memory if is_killed else ExitCode.ERROR)


def _work(shared: _Shared) -> None:
    """Takes parts until there are no more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with console.quiet_imports():
        import tensorflow as tf

        from electra_tf.data import shards
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    while (number := shared.numbers.get()) is not None:
        seen = [0, 0]

        def report(statistics: Any, seen: list[int] = seen) -> None:  # noqa: ANN401
            now = [statistics.documents, statistics.text_bytes]
            with shared.totals.get_lock():
                for i in range(2):
                    shared.totals[i] += now[i] - seen[i]
            seen[:] = now

        try:
            part = shards.Part(*shared.shards[number])
            shared.job.do(part, report=report, num_threads=1)
        except Exception as error:
            code, text = explain(error)
            text = text or traceback.format_exc()
            shared.outcomes.put(_Outcome(text, code))
        else:
            shared.outcomes.put(_Outcome())


def _end_with_parent() -> None:
    """Ends this process when its parent is gone, however that ended."""
    multiprocessing.parent_process().join()
    os._exit(1)
