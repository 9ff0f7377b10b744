r"""Measures a served model under load, against rivals that run in process.

    python tools/benchmarks/environments.py --dir=DIR
    python tools/benchmarks/serving_load.py --environments=DIR

Concurrent clients send one text after another, and request P(replaced) of its
tokens. Texts are paragraphs of the installed documentation, with a vocabulary
learnt from them; all peers have one discriminator with random weights. It is
served by KServe's server, over HTTP, and run in process as our SavedModel of
texts, by Hugging Face's model in PyTorch and by ONNX Runtime, the last two with
the fast tokenizer; see `serving_peers.py`.

Each peer runs in a process of its own, with its clients, the same number of
compute threads, and the Python of its environment (without --environments, that
of this command); they take turns. A turn disturbed by another process is
repeated; a busy machine is refused (`machine.py`). The run fails if peers
differ by 1e-3 or more in a probability. It prints a table to standard error,
and one JSON line: the 50th and the 99th percentile of latency in milliseconds,
over the requests of all turns; requests per second, turn by turn; and the ratio
of our rate to that of the fastest rival.
"""

import contextlib
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import checks
import environments
import machine
import numpy as np
import serving_peers
import workers
from reports import median_ratio, spread

from electra_tf.util import config_flags, console, signals, tables
from electra_tf.util.config_fields import bounded, require

PEERS = {
    "kserve": "kserve",
    "saved_model": "electra_tf",
    "torch": "torch",
    "onnx": "onnx",
}
"""Peer -> its environment, see `environments.py`."""
_OURS = ("kserve", "saved_model")
_WORKER = pathlib.Path(serving_peers.__file__)
_NUM_COMPARED = 32
_SECONDS_OF_WARM_UP = 1.0

Load = dict[str, Any]
"""Answer of a worker, see `serving_peers.load`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(environments.EncoderConfig):
    """What to measure."""

    clients: tuple[int, ...] = (1, 8, 32)
    """Number of concurrent clients; each number is measured."""

    peers: tuple[str, ...] = tuple(PEERS)
    """Peers to measure: kserve, saved_model, torch, onnx."""

    turns: int = bounded("at least 1", 5)
    """Number of turns of each peer, for each number of clients."""

    seconds: float = 3.0
    """Duration of a turn; clients still wait for the answer to their last
    request."""

    num_texts: int = bounded("at least 1", 512)
    """Number of texts that clients send in turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "seconds", "above 0", lambda x: x > 0)
        checks.require_counts(self, "clients")
        checks.require_known(self, "peers", PEERS, some=True)


class Worker(workers.Worker):
    """A process whose clients send requests to a peer."""

    def __init__(
        self,
        peer: str,
        environment: str,
        setting: serving_peers.Setting,
        directory: str,
    ) -> None:
        python = environments.find_python(directory, environment)
        super().__init__(_WORKER, [peer], setting, python)

    def load(self, num_clients: int, seconds: float) -> Load:
        """Runs concurrent clients, see `serving_peers.load`."""
        return self.ask({"clients": num_clients, "seconds": seconds})

    def probabilities(self, num_texts: int) -> list[list[float]]:
        """Returns P(replaced) of the tokens of the first texts."""
        return self.ask({"num_texts": num_texts})["probabilities"]


@signals.interruptible(is_resumable=False)
def main(config: BenchmarkConfig) -> None:
    """Measures the peers in turn, and prints the figures."""
    quiet = machine.QuietMachine(config.busy_limit)
    peer_workers, versions = {}, {}
    with tempfile.TemporaryDirectory() as directory:
        setting = prepare(config, directory)
        with contextlib.ExitStack() as stack:
            for name in config.peers:
                worker = Worker(name, PEERS[name], setting, config.environments)
                stack.callback(worker.close)
                peer_workers[name] = worker
                versions |= worker.versions
            compared = _compare(peer_workers)
            load = {
                str(n): _measure(config, peer_workers, n, quiet)
                for n in config.clients
            }
    sys.stderr.write(table(load))
    report = {"benchmark": "serving_load", **versions, **quiet.report()}
    report |= dataclasses.asdict(config)
    print(json.dumps(report | compared | {"load": load}))


def prepare(config: BenchmarkConfig, directory: str) -> serving_peers.Setting:
    """Writes texts and vocabulary, and the files of the networks."""
    sizes = config.sizes | {"vocab_size": _write_texts(config, directory)}
    setting = serving_peers.Setting(
        directory=directory,
        sizes=sizes,
        threads=config.threads,
    )
    for peer, environment in _file_writers(config):
        Worker(peer, environment, setting, config.environments).close()
    return setting


def _write_texts(config: BenchmarkConfig, directory: str) -> int:
    """Writes texts, vocabulary and tokenizer; returns the number of tokens."""
    with console.quiet_imports():
        from electra_tf.checkpoint.hugging_face import tokenizer
        from electra_tf.data import demo_corpus
        from electra_tf.data.vocabulary_learner import learn_vocabulary
        from electra_tf.model.tokenization import Vocabulary

    paragraphs = [text for found in demo_corpus.documents() for text in found]
    rng = np.random.default_rng(0)
    rows = rng.choice(len(paragraphs), config.num_texts)
    tokens = learn_vocabulary(
        paragraphs,
        vocab_size=config.vocab_size,
        do_lower_case=True,
        strip_accents=True,
    )
    contents = tokenizer.contents(
        Vocabulary(tuple(tokens)),
        do_lower_case=True,
        strip_accents=True,
        max_length=serving_peers.MAX_TOKENS,
    )
    contents[serving_peers.TEXTS] = [paragraphs[row] for row in rows]
    for name, content in contents.items():
        text = content if isinstance(content, str) else json.dumps(content)
        pathlib.Path(directory, name).write_text(text, "utf-8")
    return len(tokens)


def _file_writers(config: BenchmarkConfig) -> Iterator[tuple[str, str]]:
    """Yields the peers that write the networks' files, and environments."""
    yield "torch_files", "torch"
    if "onnx" in config.peers:
        yield "onnx_files", "onnx"
    if not set(_OURS).isdisjoint(config.peers):
        yield "saved_model_files", "electra_tf"


def _compare(peer_workers: Mapping[str, Worker]) -> dict[str, Any]:
    """Checks that all peers give the same answers as the first."""
    answers = {
        name: x.probabilities(_NUM_COMPARED) for name, x in peer_workers.items()
    }
    first = next(iter(answers.values()))
    differences = {
        name: _difference(first, found) for name, found in answers.items()
    }
    return {
        "largest_difference": checks.require_same("probabilities", differences),
        "num_tokens": spread(map(len, first)),
    }


def _difference(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> float:
    """Returns the largest difference; infinity if numbers of tokens differ."""
    if list(map(len, first)) != list(map(len, second)):
        return float("inf")
    found, expected = (np.concatenate(rows) for rows in (second, first))
    return float(np.abs(found - expected).max())


def _measure(
    config: BenchmarkConfig,
    peer_workers: Mapping[str, Worker],
    num_clients: int,
    quiet: machine.QuietMachine,
) -> dict[str, Any]:
    """Measures all peers with a number of clients."""
    for worker in peer_workers.values():
        worker.load(num_clients, _SECONDS_OF_WARM_UP)
    turns: dict[str, list[Load]] = workers.take_turns(
        *(quiet, peer_workers, config.turns),
        lambda name: peer_workers[name].load(num_clients, config.seconds),
    )
    return summary(turns)


def summary(turns: Mapping[str, Sequence[Load]]) -> dict[str, Any]:
    """Returns the figures of peers."""
    rates = {
        name: [len(x["latencies"]) / x["seconds"] for x in found]
        for name, found in turns.items()
    }
    rivals = [
        found for name, found in rates.items() if not name.startswith(_OURS)
    ]
    rival = max(rivals, key=statistics.median, default=None)
    figures = {}
    for name, found in turns.items():
        latencies = np.concatenate([x["latencies"] for x in found])
        p50, p99 = 1e3 * np.percentile(latencies, [50, 99])
        figures[name] = {
            "p50_ms": float(p50),
            "p99_ms": float(p99),
            "requests": len(latencies),
            "requests_per_second": spread(rates[name]),
        }
        if rival and name.startswith(_OURS):
            ratio = median_ratio(rates[name], rival)
            figures[name]["rate_over_fastest_rival"] = ratio
    return figures


def table(load: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a Markdown table with a line for each peer."""
    columns = [f"{n} clients: p50, p99 ms, requests/s" for n in load]
    rows = [["peer", *columns]]
    for name in next(iter(load.values())):
        cells = (found[name] for found in load.values())
        rows.append([name, *map(_cell, cells)])
    return tables.markdown(rows)


def _cell(figures: Mapping[str, Any]) -> str:
    rate = figures["requests_per_second"]["median"]
    return f"{figures['p50_ms']:.1f}, {figures['p99_ms']:.1f}, {rate:.1f}"


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
