r"""Starts the workers of a pre-training on this machine, as on many machines.

python tools/launch_local.py --workers=2 --max_restarts=2 -- \
    --flagfile=configs/small.cfg --data_dir=DIR

The flags after `--` are those of run_pretraining. Lines of output begin with
the number of their worker. SIGTERM, SIGINT and SIGHUP are passed on to the
workers, and the job ends with one checkpoint. After a failure that may be
transient, all workers are restarted from the last checkpoint, at most
`--max_restarts` times. The exit code is that of the worker that failed first.

One machine with several GPUs needs no workers: --strategy=mirrored.
"""

import argparse
import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO

from electra_tf.util import console
from electra_tf.util.errors import ExitCode

_COMMAND = (sys.executable, "-m", "electra_tf.run_pretraining")
NO_RESTART_CODES = {
    ExitCode.BAD_INPUT,
    ExitCode.DIRECTORY_IN_USE,
    ExitCode.NON_FINITE_LOSS,
    ExitCode.OUT_OF_MEMORY,
    ExitCode.NO_SPACE,
    ExitCode.STOPPED_BY_SIGNAL,
}
"""Exit codes that a restart would repeat, or that the user asked for."""
_POLL_SECONDS = 0.1
_SECONDS_TO_FOLLOW = 60.0  # twice what workers need to notice a lost one


def main() -> int:
    """Launches the workers; returns the exit code."""
    parser = argparse.ArgumentParser(
        usage="%(prog)s --workers=N [--max_restarts=N] -- FLAGS",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--workers", type=int, required=True, help="processes")
    parser.add_argument(
        "--max_restarts", type=int, default=0, help="after failures (default 0)"
    )
    parser.add_argument("flags", nargs="*", help="of run_pretraining")
    args = parser.parse_args()
    if args.workers < 1 or args.max_restarts < 0:
        parser.error("--workers must be at least 1, --max_restarts at least 0")
    return launch(
        [*_COMMAND, *args.flags],
        num_workers=args.workers,
        max_restarts=args.max_restarts,
    )


def launch(
    command: Sequence[str],
    *,
    num_workers: int,
    max_restarts: int = 0,
    seconds_to_follow: float = _SECONDS_TO_FOLLOW,
) -> int:
    """Runs a command in several workers; restarts after transient failures."""
    signals_received: list[int] = []
    with console.handled_by(lambda number, _: signals_received.append(number)):
        for restart in range(max_restarts + 1):
            with _started_workers(command, num_workers) as processes:
                number = _wait(processes, signals_received, seconds_to_follow)
            if number is None:
                return ExitCode.DONE
            code = _exit_code(processes[number])
            if (
                restart == max_restarts
                or code in NO_RESTART_CODES
                or signals_received
            ):
                break
            _say(f"Restart {restart + 1} of {max_restarts}.")
    return code


@contextlib.contextmanager
def _started_workers(
    command: Sequence[str], num_workers: int
) -> Iterator[list[subprocess.Popen]]:
    """Starts workers, copies their output, and ends them whatever happens."""
    cluster = {"worker": [f"localhost:{p}" for p in free_ports(num_workers)]}
    processes, copy_threads = [], []
    try:
        for number in range(num_workers):
            task = {"type": "worker", "index": number}
            config = json.dumps({"cluster": cluster, "task": task})
            process = subprocess.Popen(
                command,
                env={**os.environ, "TF_CONFIG": config},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # Workers get a terminal's Ctrl-C from here only, not twice.
                start_new_session=True,
            )
            processes.append(process)
            _say(f"Worker {number} is process {process.pid}.")
            copy_threads.append(
                threading.Thread(
                    target=_copy_output, args=(process.stdout, number)
                )
            )
            copy_threads[-1].start()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for thread in copy_threads:
            thread.join()


def free_ports(number: int) -> list[int]:
    """Returns ports that no process listens on."""
    with contextlib.ExitStack() as stack:
        found = [
            stack.enter_context(socket.create_server(("localhost", 0)))
            for _ in range(number)
        ]
        return [server.getsockname()[1] for server in found]


def _copy_output(output: IO[bytes], number: int) -> None:
    """Copies the lines of a worker's output to ours."""
    with output:
        for line in output:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            _say(f"[{number}] {text}")


def _say(text: str) -> None:
    """Prints a line; if the reader of our output is gone, workers train on."""
    with contextlib.suppress(OSError):
        console.say(text)


def _wait(
    processes: Sequence[subprocess.Popen],
    signals_received: Sequence[int],
    seconds_to_follow: float,
) -> int | None:
    """Waits until all workers end, and passes signals on to them."""
    first_failed, deadline, num_forwarded = None, math.inf, 0
    running = list(processes)
    while True:
        for process in [x for x in running if x.poll() is not None]:
            running.remove(process)
            number, code = processes.index(process), _exit_code(process)
            _say(f"Worker {number} ended with exit code {code}.")
        if first_failed is None:
            first_failed = _first_failed(processes)
            deadline = math.inf if first_failed is None else time.monotonic()
            deadline += seconds_to_follow
        if not running:
            return first_failed
        new_signals = signals_received[num_forwarded:]
        num_forwarded += len(new_signals)
        for process in running:
            for number in new_signals:
                process.send_signal(number)
            if time.monotonic() > deadline:
                process.kill()
        time.sleep(_POLL_SECONDS)


def _exit_code(process: subprocess.Popen) -> int:
    """Returns the exit code of an ended process, as a shell reports it."""
    code = process.returncode
    return 128 - code if code < 0 else code


def _first_failed(processes: Sequence[subprocess.Popen]) -> int | None:
    """Returns a failed worker's number, preferably not one that lost a peer."""
    failed = [i for i, process in enumerate(processes) if process.returncode]
    lost = ExitCode.LOST_WORKER
    return min(
        failed, key=lambda i: processes[i].returncode == lost, default=None
    )


if __name__ == "__main__":
    sys.exit(main())
