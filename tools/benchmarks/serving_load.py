r"""Measures a served model under load, beside rivals in process.

    python tools/benchmarks/environments.py --dir=DIR
    python tools/benchmarks/serving_load.py --environments=DIR

Clients ask at once, each one text after the other, for P(replaced) of its
tokens: paragraphs of the installed documentation, with a vocabulary learnt from
it, and one discriminator of random weights. It is asked behind KServe's server,
over HTTP; and in process as our SavedModel of texts, as Hugging Face's in
PyTorch and as ONNX Runtime's, these with the fast tokenizer.
`serving_peers.py` says who they are.

Each is a process of its own, clients included, with as many threads that
compute and the Python of its environment (without --environments the one that
runs), and they take turns. A turn that another process disturbed is taken
again; a busy machine is refused (`machine.py`). Peers that differ by 1e-3 or
more in a probability are refused. It prints a table to standard error, and one
JSON line: milliseconds of the 50th and the 99th percentile of the requests of
all turns, and requests a second, turn by turn; also how many times the rate of
the fastest rival ours has.
"""

import dataclasses
import functools
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import environments
import machine
import numpy as np
import serving_peers
import workers
from peers import SIZES, encoder_sizes
from reports import spread

from electra_tf.util import config_flags, console
from electra_tf.util.config_fields import one_of, require, require_choices
from electra_tf.util.errors import UserError

PEERS = {
    "kserve": "kserve",
    "saved_model": "electra_tf",
    "torch": "torch",
    "onnx": "onnx",
}
"""Who is asked -> the environment, see `environments.py`."""
_OURS = ("kserve", "saved_model")
_WORKER = pathlib.Path(serving_peers.__file__)
_LARGEST_DIFFERENCE = 1e-3
_NUM_COMPARED = 32
_SECONDS_OF_WARM_UP = 1.0

Load = dict[str, Any]
"""Answer of a worker, see `serving_peers.load`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What is measured."""

    clients: tuple[int, ...] = (1, 8, 32)
    """Clients that ask at once."""

    peers: tuple[str, ...] = tuple(PEERS)
    """Who is asked: kserve, saved_model, torch and onnx."""

    environments: str = ""
    """Directory that `environments.py` made; by default all peers run in the
    environment of this command."""

    busy_limit: float = machine.BUSY_LIMIT
    """Share of the machine's CPU time that other processes may take; 1 for
    all of it."""

    turns: int = 5
    """Turns of each peer, for each number of clients."""

    seconds: float = 3.0
    """Of a turn; a client that waits then for an answer waits on."""

    threads: int = 2
    """Threads of each peer that compute."""

    num_texts: int = 512
    """Texts that are asked for in turn."""

    size: str = one_of(*SIZES)
    """Of the discriminator, 12 layers."""

    num_hidden_layers: int = 12
    """Layers of the discriminator."""

    vocab_size: int = 30522
    """Tokens to learn."""

    def __post_init__(self) -> None:
        counts = "turns threads num_texts num_hidden_layers"
        require(self, counts, "at least 1", lambda n: n >= 1)
        require(self, "seconds", "above 0", lambda x: x > 0)
        require(self, "clients", "numbers from 1", lambda x: x and min(x) >= 1)
        require_choices(self)
        machine.check_busy_limit(self)
        require(
            self,
            "peers",
            f"some of {', '.join(PEERS)}",
            lambda given: given and set(given) <= set(PEERS),
        )


class Worker(workers.Worker):
    """A process whose clients ask a peer on request.

    Args:
      peer: of `serving_peers`.
      environment: that has its packages.
      setting: of `serving_peers`.
      directory: of the environments, "" for none.
    """

    def __init__(
        self,
        peer: str,
        environment: str,
        setting: serving_peers.Setting,
        directory: str,
    ) -> None:
        python = environments.find_python(directory, environment)
        words = json.dumps(dataclasses.asdict(setting))
        super().__init__(_WORKER, [peer, words], python)

    def load(self, num_clients: int, seconds: float) -> Load:
        """Lets clients ask at once, see `serving_peers.load`."""
        return self.ask({"clients": num_clients, "seconds": seconds})

    def probabilities(self, num_texts: int) -> list[list[float]]:
        """Returns P(replaced) of the tokens of the first texts."""
        return self.ask({"num_texts": num_texts})["probabilities"]


def main(config: BenchmarkConfig) -> None:
    """Lets the peers take turns, and prints the figures."""
    quiet, at_work = machine.QuietMachine(config.busy_limit), machine.describe()
    asked, versions = {}, {}
    with tempfile.TemporaryDirectory() as directory:
        setting = prepare(config, directory)
        try:
            for name, worker in _start(config, setting):
                asked[name] = worker
                versions |= worker.versions
            compared = _compare(asked)
            load = {
                str(n): _measure(config, asked, n, quiet)
                for n in config.clients
            }
        finally:
            for worker in asked.values():
                worker.close()
    sys.stderr.write(table(load))
    report = {"benchmark": "serving_load", **versions, **at_work}
    report |= {"other_load": quiet.report(), **dataclasses.asdict(config)}
    print(json.dumps(report | compared | {"load": load}))


def prepare(config: BenchmarkConfig, directory: str) -> serving_peers.Setting:
    """Writes texts and vocabulary, and the files of the networks.

    Args:
      config: what is measured.
      directory: where they go.

    Returns:
      The setting of the peers.
    """
    sizes = encoder_sizes(
        config.size,
        num_hidden_layers=config.num_hidden_layers,
        vocab_size=_write_texts(config, directory),
    )
    setting = serving_peers.Setting(
        directory=directory,
        sizes=sizes,
        threads=config.threads,
    )
    for peer, environment in _files(config):
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


def _files(config: BenchmarkConfig) -> Iterator[tuple[str, str]]:
    """Yields what writes the files of the networks, and its environment."""
    yield "torch_files", "torch"
    if "onnx" in config.peers:
        yield "onnx_files", "onnx"
    if not set(_OURS).isdisjoint(config.peers):
        yield "saved_model_files", "electra_tf"


def _start(
    config: BenchmarkConfig, setting: serving_peers.Setting
) -> Iterator[tuple[str, Worker]]:
    """Yields a worker for each peer, with its name."""
    for peer in config.peers:
        yield peer, Worker(peer, PEERS[peer], setting, config.environments)


def _compare(asked: Mapping[str, Worker]) -> dict[str, Any]:
    """Refuses peers that answer otherwise than the first.

    Returns:
      "largest_difference" of a probability, and the "num_tokens" of the texts
      that were compared.
    """
    answers = {
        name: x.probabilities(_NUM_COMPARED) for name, x in asked.items()
    }
    first = next(iter(answers.values()))
    sizes = list(map(len, first))
    differences = {
        name: _difference(first, found) for name, found in answers.items()
    }
    for name, difference in differences.items():
        if not difference < _LARGEST_DIFFERENCE:  # nor is NaN
            raise UserError(
                "All peers must find the same probabilities, within "
                f"{_LARGEST_DIFFERENCE}. Received: {difference} from {name}. "
                "No time is reported."
            )
    largest = max(differences.values())
    return {"largest_difference": largest, "num_tokens": spread(sizes)}


def _difference(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> float:
    """Returns the largest difference; infinity where tokens differ."""
    if list(map(len, first)) != list(map(len, second)):
        return float("inf")
    found, expected = (np.concatenate(rows) for rows in (second, first))
    return float(np.abs(found - expected).max())


def _measure(
    config: BenchmarkConfig,
    asked: Mapping[str, Worker],
    num_clients: int,
    quiet: machine.QuietMachine,
) -> dict[str, Any]:
    """Measures all peers with so many clients."""
    for worker in asked.values():
        worker.load(num_clients, _SECONDS_OF_WARM_UP)
    turns: dict[str, list[Load]] = {name: [] for name in asked}
    for turn in range(config.turns):
        for name in sorted(asked, reverse=turn % 2 == 1):
            ask = functools.partial(
                asked[name].load, num_clients, config.seconds
            )
            turns[name].append(quiet.take(ask, asked[name].pid))
    return summary(turns)


def summary(turns: Mapping[str, Sequence[Load]]) -> dict[str, Any]:
    """Returns the figures of peers.

    Args:
      turns: name, as "kserve" -> its turns.

    Returns:
      Name -> "p50_ms" and "p99_ms" of the requests of all turns, how many
      "requests" these are, "requests_per_second" turn by turn and, of ours,
      "rate_over_fastest_rival", the median over turns.
    """
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
        median, high = 1e3 * np.percentile(latencies, [50, 99])
        figures[name] = {
            "p50_ms": float(median),
            "p99_ms": float(high),
            "requests": len(latencies),
            "requests_per_second": spread(rates[name]),
        }
        if rival and name.startswith(_OURS):
            figures[name]["rate_over_fastest_rival"] = statistics.median(
                a / b for a, b in zip(rates[name], rival, strict=True)
            )
    return figures


def table(load: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a table in Markdown, a line for each peer.

    Args:
      load: number of clients -> name -> its figures.
    """
    heads = [f"{n} clients: p50, p99 ms, requests/s" for n in load]
    lines = [["asked", *heads], ["---"] * (1 + len(heads))]
    for name in next(iter(load.values())):
        cells = (found[name] for found in load.values())
        lines.append([name, *map(_cell, cells)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(figures: Mapping[str, Any]) -> str:
    rate = figures["requests_per_second"]["median"]
    return f"{figures['p50_ms']:.1f}, {figures['p99_ms']:.1f}, {rate:.1f}"


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
