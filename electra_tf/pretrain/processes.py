"""Parts built by several processes.

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

from electra_tf.configure_corpus import CorpusConfig
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.sources import Source
from electra_tf.util import console
from electra_tf.util.errors import UserError

SECONDS_BETWEEN_REPORTS = 0.5

Report = Callable[[int, int], None]  # documents and bytes of text


class _Outcome(NamedTuple):
    """What became of a part.

    Attributes:
      error: what went wrong; "" for nothing.
      is_users: whether the user can do something about it.
    """

    error: str = ""
    is_users: bool = False


class _Job(NamedTuple):
    """What all processes know.

    Attributes:
      parts: sources and directory of all `Part`s that are to be built; not
        themselves, as to read one is to import TensorFlow.
      config: of the corpus.
      vocabulary: of its tokens.
      numbers: queue of the parts to build; None ends a process.
      outcomes: queue of `_Outcome`s.
      totals: array of the documents and bytes that were read.
    """

    parts: list[tuple[tuple[Source, ...], str]]
    config: CorpusConfig
    vocabulary: Vocabulary
    numbers: Any
    outcomes: Any
    totals: Any


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def build(
    parts: list[Any],
    config: CorpusConfig,
    vocabulary: Vocabulary,
    num_processes: int,
    report: Report,
) -> None:
    """Builds parts, the largest first.

    Args:
      parts: `Part`s.
      config: of the corpus.
      vocabulary: of its tokens.
      num_processes: that build at the same time.
      report: called now and then with the numbers read so far.

    Raises:
      UserError: if the text cannot be read or the records be written.
      RuntimeError: if a process failed or was killed.
    """
    context = multiprocessing.get_context("spawn")
    ordered = sorted(parts, key=lambda part: -part.num_text_bytes)
    job = _Job(
        [(part.sources, part.directory) for part in ordered],
        config,
        vocabulary,
        context.Queue(),
        context.Queue(),
        context.Array("q", 2),
    )
    for number in [*range(len(parts)), *[None] * num_processes]:
        job.numbers.put(number)
    with _started(context, job, num_processes) as processes:
        for _ in parts:
            outcome = _next_outcome(job, processes, report)
            if outcome.is_users:
                raise UserError(outcome.error)
            if outcome.error:
                raise RuntimeError(outcome.error)
    report(*job.totals)


@contextlib.contextmanager
def _started(
    context: multiprocessing.context.SpawnContext, job: _Job, number: int
) -> Iterator[list[SpawnProcess]]:
    """Starts processes, and ends them whatever happens."""
    processes = [
        context.Process(target=_work, args=(job,), daemon=True)
        for _ in range(number)
    ]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        job.numbers.cancel_join_thread()
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


def _next_outcome(
    job: _Job, processes: list[SpawnProcess], report: Report
) -> _Outcome:
    """Waits for a part to be built."""
    while True:
        report(*job.totals)
        try:
            return job.outcomes.get(timeout=SECONDS_BETWEEN_REPORTS)
        except queue.Empty:
            codes = [process.exitcode for process in processes]
        if failed := [code for code in codes if code]:
            raise RuntimeError(
                "A process that built records was ended. Received: exit code "
                f"{failed[0]}; -9 mostly means that memory ran out: lower "
                "--num_processes. What is built is kept; the same command "
                "goes on."
            )


def _work(job: _Job) -> None:
    """Builds parts until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with console.quiet_imports():
        import tensorflow as tf

        from electra_tf.pretrain import parts
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    while (number := job.numbers.get()) is not None:
        seen = [0, 0]

        def report(statistics: Any, seen: list[int] = seen) -> None:  # noqa: ANN401
            now = [statistics.documents, statistics.text_bytes]
            with job.totals.get_lock():
                for i in range(2):
                    job.totals[i] += now[i] - seen[i]
            seen[:] = now

        try:
            parts.build(
                parts.Part(*job.parts[number]),
                job.config,
                job.vocabulary,
                report=report,
                num_threads=1,
            )
        except (UserError, OSError, tf.errors.ResourceExhaustedError) as error:
            job.outcomes.put(_Outcome(str(error), is_users=True))
        except Exception:
            job.outcomes.put(_Outcome(traceback.format_exc()))
        else:
            job.outcomes.put(_Outcome())


def _end_with_parent() -> None:
    """Ends this process when its parent is gone, however that ended."""
    multiprocessing.parent_process().join()
    os._exit(1)
