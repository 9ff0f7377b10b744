"""Soak test: watches memory, open files and threads of a long-running command.

    python tools/soak.py --what=updates --length=20000
    python tools/soak.py --what=finetuning --length=200
    python tools/soak.py --what=server --length=600

`updates` is a pre-training of the debug model, with checkpoints, logs and the
final evaluation; `finetuning` is one run with many trials of a tiny encoder on
a tiny task; `server` is the debug model behind KServe's server (`[serve]`),
under load from concurrent clients for --length seconds. Each runs in a process
of its own, started as a user would, on text of the installed documentation.

Once a second the process is sampled: memory that no file backs (RssAnon of
/proc/PID/status), open files, threads. The first tenth of the length is left
out as a warm-up; the server's warm-up, a tenth of its length, comes before. It
prints one JSON line, with the slope of memory in MB (10^6 bytes) per 1,000
updates, trials or requests and its 95 % interval (see `process_samples.py`);
for the server also the errors, and the 50th and 99th percentile of latency, in
milliseconds, in the first and in the last tenth of the time.
"""

import collections
import contextlib
import dataclasses
import http.client
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any, NamedTuple

import numpy as np
from process_samples import Sample, summarize, watch

from electra_tf.util import config_flags, machine, optional_packages, signals
from electra_tf.util.config_fields import Checked, bounded, one_of
from electra_tf.util.errors import UserError

_ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(_ROOT / "tools" / "benchmarks"))  # machine, serving_peers

Connect = Callable[[], Callable[[str], Any]]
"""Connects one client; returns a function that sends a request."""

_WARM_UP = 0.1
_NUM_PERIODS = 10
_NUM_TEXTS = 256
_CORPUS_CHARACTERS = 1_000_000
_NAME, _TASK = "soak", "sst"
_SIZES = {"train": 32, "dev": 16}
_TINY = (
    "--hidden_size=32",
    "--num_hidden_layers=1",
    "--num_attention_heads=2",
    "--intermediate_size=64",
    "--embedding_size=16",
    "--num_warmup_steps=0",
    "--do_eval=false",
    "--do_export=false",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoakConfig(Checked):
    """What to watch, and for how long."""

    what: str = one_of("updates", "finetuning", "server")
    """Command to run."""

    length: int = bounded("at least 1", 0)
    """Number of updates or trials, or seconds of load. Required."""

    directory: str = ""
    """Directory for data, models and logs, to keep them. Default: a temporary
    one, removed at the end."""

    clients: int = bounded("at least 1", 8)
    """Number of concurrent clients of the server."""

    seconds_between_samples: float = bounded("positive", 1.0)
    """Seconds between two samples of the process."""


class Watched(NamedTuple):
    """Samples of a process."""

    samples: list[Sample]
    begin: float
    load: dict[str, Any]


@signals.interruptible(is_resumable=False)
def main(config: SoakConfig) -> None:
    """Runs and watches the command, and prints the report."""
    import machine

    run = {"updates": _updates, "finetuning": _finetuning, "server": _server}
    machine_facts, start = machine.describe(), time.monotonic()
    with _directory(config) as directory:
        watched = run[config.what](config, directory)
    report = {
        "soak": config.what,
        **machine.versions("tensorflow", "keras"),
        **machine_facts,
        **dataclasses.asdict(config),
        "seconds": time.monotonic() - start,
        **summarize([x for x in watched.samples if x.progress > watched.begin]),
        **watched.load,
    }
    print(json.dumps(report))


@contextlib.contextmanager
def _directory(config: SoakConfig) -> Iterator[pathlib.Path]:
    """Makes a directory with a corpus in it."""
    from electra_tf.data import demo_corpus

    with contextlib.ExitStack() as stack:
        directory = config.directory or stack.enter_context(
            tempfile.TemporaryDirectory()
        )
        path = pathlib.Path(directory).absolute()
        path.mkdir(parents=True, exist_ok=True)
        documents = ("\n".join(x) + "\n\n" for x in demo_corpus.documents())
        text, size = [], 0
        while size < _CORPUS_CHARACTERS:
            text.append(next(documents))
            size += len(text[-1])
        (path / "corpus.txt").write_text("".join(text), "utf-8")
        yield path


def _updates(config: SoakConfig, directory: pathlib.Path) -> Watched:
    """Watches a pre-training of the debug model."""
    log = directory / "models" / _NAME / "metrics.jsonl"
    return _watch_command(
        config,
        directory,
        ["run_pretraining", *_debug_flags(directory, config.length)],
        lambda: last_step(log),
    )


def _finetuning(config: SoakConfig, directory: pathlib.Path) -> Watched:
    """Watches the fine-tuning trials of a tiny encoder."""
    _wait_for_success(
        _start_command(
            directory, "run_pretraining", *_debug_flags(directory, 1), *_TINY
        )
    )
    _write_task(directory / "finetuning_data" / _TASK)
    trials = directory / "models" / _NAME / "finetuning_models"
    return _watch_command(
        config,
        directory,
        [
            "run_finetuning",
            f"--data_dir={directory}",
            f"--model_name={_NAME}",
            f"--task_names={_TASK}",
            f"--num_trials={config.length}",
            "--train_batch_size=8",
            "--num_train_epochs=2",
            "--max_restarts=0",
        ],
        lambda: len(list(trials.glob("*/result.json"))),
    )


def _server(config: SoakConfig, directory: pathlib.Path) -> Watched:
    """Watches a server of the debug model under load."""
    import serving_peers

    optional_packages.load("kserve", "serve")
    _wait_for_success(
        _start_command(
            directory, "run_pretraining", *_debug_flags(directory, 20)
        )
    )
    exported = pathlib.Path(directory, serving_peers.SAVED_MODEL).parents[2]
    names = (f"--data_dir={directory}", f"--model_name={_NAME}")
    flags = (*names, f"--output_dir={exported}")
    _wait_for_success(_start_command(directory, "export_saved_model", *flags))
    setting = serving_peers.Setting(
        directory=str(directory),
        sizes={},
        threads=machine.num_cores(),
    )
    peer = serving_peers.kserve(setting)
    try:
        texts = (directory / "corpus.txt").read_text("utf-8").splitlines()
        texts = list(filter(None, texts))[:_NUM_TEXTS]
        return _watch_server(config, peer.connect, peer.pid, texts=texts)
    finally:
        peer.close()


def _watch_server(
    config: SoakConfig, connect: Connect, pid: int, *, texts: Sequence[str]
) -> Watched:
    """Watches a server under load, after a warm-up."""
    import serving_peers

    clients = Clients(connect)

    def run_clients(seconds: float) -> list[float]:
        """Returns the latency of each request, in seconds."""
        found = serving_peers.load(
            clients.connect, texts, config.clients, seconds
        )
        return found["latencies"]

    run_clients(_WARM_UP * config.length)
    begin, done = clients.num_done, threading.Event()
    with futures.ThreadPoolExecutor(1) as pool:
        samples_future = pool.submit(
            watch,
            pid,
            lambda: clients.num_done,
            done.wait,
            config.seconds_between_samples,
        )
        try:
            periods = [
                run_clients(config.length / _NUM_PERIODS)
                for _ in range(_NUM_PERIODS)
            ]
        finally:
            done.set()
    return Watched(
        samples_future.result(), begin, _load_report(periods, clients)
    )


class Clients:
    """Counts the requests of clients, and those that fail."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._numbers = itertools.count(1)
        self.num_done = 0
        self.errors = collections.Counter()

    def connect(self) -> Callable[[str], None]:
        """Connects one client, which reconnects after an error."""
        send = self._connect()

        def counted(text: str) -> None:
            nonlocal send
            try:
                send(text)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                self.errors[type(error).__name__] += 1
                send = self._connect()
            self.num_done = next(self._numbers)

        return counted


def _load_report(
    periods: Sequence[Sequence[float]], clients: Clients
) -> dict[str, object]:
    """Returns the entries of a report on requests, errors and latencies."""
    first_and_last = {"first": periods[0], "last": periods[-1]}
    return {
        "requests": sum(map(len, periods)),
        "errors": dict(clients.errors),
        **{
            f"p{percent}_ms": {
                name: 1000 * float(np.percentile(latencies, percent))
                for name, latencies in first_and_last.items()
            }
            for percent in (50, 99)
        },
    }


def last_step(log: pathlib.Path) -> int:
    """Returns the step in the last complete line of a metrics.jsonl, or 0."""
    lines = log.read_bytes().split(b"\n") if log.exists() else []
    return json.loads(lines[-2])["step"] if len(lines) > 1 else 0


def _debug_flags(directory: pathlib.Path, num_updates: int) -> list[str]:
    """Returns the flags of a pre-training of the debug model."""
    return [
        f"--flagfile={_ROOT}/configs/small.cfg",
        f"--flagfile={_ROOT}/configs/debug.cfg",
        f"--data_dir={directory}",
        f"--model_name={_NAME}",
        f"--corpus={directory}/corpus.txt",
        f"--num_train_steps={num_updates}",
        f"--num_warmup_steps={num_updates // 10}",
    ]


def _write_task(directory: pathlib.Path) -> None:
    """Writes a task whose label is whether the text has the word "good"."""
    rng = random.Random(0)
    directory.mkdir(parents=True, exist_ok=True)
    for split, size in _SIZES.items():
        lines = ["sentence\tlabel"]
        for i in range(size):
            words = [("good", "bad")[i % 2], *"the code of a file".split()]
            lines.append(f"{' '.join(rng.sample(words, 6))}\t{1 - i % 2}")
        (directory / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def _watch_command(
    config: SoakConfig,
    directory: pathlib.Path,
    command: Sequence[str],
    progress: Callable[[], float],
) -> Watched:
    """Watches a command of the package to its end."""
    process = _start_command(directory, *command)

    def has_ended(seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    try:
        samples = watch(
            process.pid, progress, has_ended, config.seconds_between_samples
        )
        _wait_for_success(process)
    finally:
        _end(process)
    return Watched(samples, _WARM_UP * config.length, {})


def _start_command(
    directory: pathlib.Path, command: str, *flags: str
) -> subprocess.Popen:
    """Starts a command of the package, with its output in a log file."""
    with (directory / f"{command}.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", f"electra_tf.{command}", *flags],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=log,
            stderr=log,
            cwd=directory,
        )


def _end(process: subprocess.Popen) -> None:
    """Kills a process, if it still runs, so that it writes nothing more."""
    process.kill()
    process.wait()


def _wait_for_success(process: subprocess.Popen) -> None:
    """Waits until a command ends."""
    try:
        process.wait()
    finally:
        _end(process)
    if code := process.returncode:
        raise UserError(
            f"Every command must end with exit code 0. Received: {code} from "
            f"{' '.join(process.args[2:])}. Its log is in the directory; set "
            "--directory to keep it."
        )


if __name__ == "__main__":
    config_flags.run(main, SoakConfig)
