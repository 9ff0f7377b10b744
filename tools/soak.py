"""Watches a command that runs for long: its memory, open files and threads.

    python tools/soak.py --what=updates --length=20000
    python tools/soak.py --what=finetuning --length=200
    python tools/soak.py --what=server --length=600

`updates` is a pre-training of the debug model, with its checkpoints, its logs
and the evaluation at its end; `finetuning` one run of many trials of a tiny
encoder on a tiny task; `server` the debug model behind KServe's server
(`[serve]`), which clients ask at once for so many seconds. Each is a process of
its own, as a user starts it, on text of the installed documentation.

Once a second the process is looked at: memory that no file backs (RssAnon of
/proc/PID/status), open files, threads. The first tenth of the length is left
out as a warm-up; the server has one before, of a tenth of its length. It prints
one JSON line, with the slope of memory in MB (10^6 bytes) per 1,000 updates,
trials or requests and its 95 % interval (`process_samples.py` says how), and of
the server the milliseconds of the 50th and the 99th percentile of the requests
of the first and of the last tenth, and the errors.
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

from electra_tf.util import config_flags, optional_packages, signals
from electra_tf.util.config_fields import one_of, require, require_choices
from electra_tf.util.errors import UserError

_ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(_ROOT / "tools" / "benchmarks"))  # machine, serving_peers

Connect = Callable[[], Callable[[str], Any]]
"""Makes what one client asks with."""

_WARM_UP = 0.1
_NUM_TURNS = 10
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
class SoakConfig:
    """What is watched, and for how long."""

    what: str = one_of("updates", "finetuning", "server")
    """What runs."""

    length: int = 0
    """Updates, trials, or seconds of load. Required."""

    directory: str = ""
    """Directory for data, models and logs, to keep them; by default one that
    is removed in the end."""

    clients: int = 8
    """Clients that ask the server at once."""

    seconds_between_samples: float = 1.0
    """Between two looks at the process."""

    def __post_init__(self) -> None:
        require_choices(self)
        require(self, "length clients", "at least 1", lambda n: n >= 1)
        require(self, "seconds_between_samples", "positive", lambda x: x > 0)


class Watched(NamedTuple):
    """What was seen of a process.

    Attributes:
      samples: in the order of time.
      begin: progress at which the warm-up ended.
      load: of a server, how its answers came; else empty.
    """

    samples: list[Sample]
    begin: float
    load: dict[str, Any]


@signals.interruptible()
def main(config: SoakConfig) -> None:
    """Runs what the configuration asks for, and prints the report."""
    import machine

    run = {"updates": _updates, "finetuning": _finetuning, "server": _server}
    at_work, start = machine.describe(), time.monotonic()
    with _directory(config) as directory:
        watched = run[config.what](config, directory)
    report = {
        "soak": config.what,
        **machine.versions("tensorflow", "keras"),
        **at_work,
        **dataclasses.asdict(config),
        "seconds": time.monotonic() - start,
        **summarize([x for x in watched.samples if x.progress > watched.begin]),
        **watched.load,
    }
    print(json.dumps(report))


@contextlib.contextmanager
def _directory(config: SoakConfig) -> Iterator[pathlib.Path]:
    """Gives a directory with a corpus in it."""
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
    samples = _watch_command(
        config,
        directory,
        ["run_pretraining", *_debug(directory, config.length)],
        lambda: last_step(log),
    )
    return Watched(samples, _WARM_UP * config.length, {})


def _finetuning(config: SoakConfig, directory: pathlib.Path) -> Watched:
    """Watches the trials of a tiny encoder."""
    _end(_start(directory, "run_pretraining", *_debug(directory, 1), *_TINY))
    _write_task(directory / "finetuning_data" / _TASK)
    trials = directory / "models" / _NAME / "finetuning_models"
    samples = _watch_command(
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
    return Watched(samples, _WARM_UP * config.length, {})


def _server(config: SoakConfig, directory: pathlib.Path) -> Watched:
    """Watches a server of the debug model while clients ask it."""
    import serving_peers

    optional_packages.load("kserve", "serve")
    _end(_start(directory, "run_pretraining", *_debug(directory, 20)))
    exported = pathlib.Path(directory, serving_peers.SAVED_MODEL).parents[2]
    names = (f"--data_dir={directory}", f"--model_name={_NAME}")
    words = (*names, f"--output_dir={exported}")
    _end(_start(directory, "export_saved_model", *words))
    setting = serving_peers.Setting(
        directory=str(directory),
        sizes={},
        threads=os.cpu_count(),
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
    """Watches a server while clients ask it, a warm-up first."""
    import serving_peers

    clients = Clients(connect)

    def ask(seconds: float) -> list[float]:
        """Returns the seconds of each answer."""
        found = serving_peers.load(
            clients.connect, texts, config.clients, seconds
        )
        return found["latencies"]

    ask(_WARM_UP * config.length)
    begin, done = clients.num_done, threading.Event()
    with futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            watch,
            pid,
            lambda: clients.num_done,
            done.wait,
            config.seconds_between_samples,
        )
        try:
            turns = [ask(config.length / _NUM_TURNS) for _ in range(_NUM_TURNS)]
        finally:
            done.set()
    return Watched(waiting.result(), begin, _load(turns, clients))


class Clients:
    """Counts the requests of clients, and those that fail.

    Args:
      connect: makes what one client asks with.

    Attributes:
      num_done: requests that were answered or failed.
      errors: name -> how many of them.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._numbers = itertools.count(1)
        self.num_done = 0
        self.errors = collections.Counter()

    def connect(self) -> Callable[[str], None]:
        """Makes what one client asks with; after an error it asks anew."""
        ask = self._connect()

        def counted(text: str) -> None:
            nonlocal ask
            try:
                ask(text)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                self.errors[type(error).__name__] += 1
                ask = self._connect()
            self.num_done = next(self._numbers)

        return counted


def _load(
    turns: Sequence[Sequence[float]], clients: Clients
) -> dict[str, object]:
    """Returns what a report says of the answers."""
    ends = {"first": turns[0], "last": turns[-1]}
    return {
        "requests": sum(map(len, turns)),
        "errors": dict(clients.errors),
        **{
            f"p{percent}_ms": {
                name: 1000 * float(np.percentile(latencies, percent))
                for name, latencies in ends.items()
            }
            for percent in (50, 99)
        },
    }


def last_step(log: pathlib.Path) -> int:
    """Returns the update of the last whole line of a metrics.jsonl; 0 before.

    Args:
      log: the file.
    """
    lines = log.read_bytes().split(b"\n") if log.exists() else []
    return json.loads(lines[-2])["step"] if len(lines) > 1 else 0


def _debug(directory: pathlib.Path, num_updates: int) -> list[str]:
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
    """Writes a task whose label is whether the word "good" is there."""
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
) -> list[Sample]:
    """Watches a command of the package to its end."""
    process = _start(directory, *command)

    def has_ended(seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    try:
        samples = watch(
            process.pid, progress, has_ended, config.seconds_between_samples
        )
        _end(process)
    finally:
        process.kill()
    return samples


def _start(
    directory: pathlib.Path, command: str, *words: str
) -> subprocess.Popen:
    """Starts a command of the package, whose output goes to a file."""
    with (directory / f"{command}.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", f"electra_tf.{command}", *words],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=log,
            stderr=log,
            cwd=directory,
        )


def _end(process: subprocess.Popen) -> None:
    """Waits for the end of a command.

    Raises:
      UserError: if it failed.
    """
    try:
        code = process.wait()
    except BaseException:
        process.kill()
        raise
    if code:
        raise UserError(
            f"Every command must end with exit code 0. Received: {code} from "
            f"{' '.join(process.args[2:])}. Its output is in the directory; "
            "--directory keeps it."
        )


if __name__ == "__main__":
    config_flags.run(main, SoakConfig)
