r"""Measures one update against Hugging Face PyTorch.

    python -m pip install -e '.[hf-test]'
    python tools/benchmarks/peer_step.py
    python tools/benchmarks/peer_step.py --job=finetune --size=base \
        --batch_size=8

Both train the same networks on the same rows of random tokens: generator and
discriminator jointly (`pretrain_peers.py`), or a classifier on an encoder
(`finetune_peers.py`); forward and backward pass with dropout, clipping and
Adam. PyTorch has its fused attention, bfloat16 by autocast, memory kept between
updates as ours, and whichever is fastest of its fused and its foreach optimizer
and torch.compile. Each peer and precision is a process of its own, so that none
disturbs the threads of another, and they take turns: a load on the machine
meets all of them. It prints one JSON line: seconds of CPU time (of all threads)
and of the clock for an update, and how many times those of electra_tf PyTorch
needs, turn by turn. On a machine with other work trust the CPU time, and set
OMP_WAIT_POLICY=passive: else PyTorch's threads count while they wait.
"""

import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Mapping

import machine

from electra_tf.util import config_flags
from electra_tf.util.config_fields import one_of, require, require_choices

_WORKER = pathlib.Path(__file__).with_name("peer_worker.py")
VARIANTS = {"torch": ("fused", "foreach", "compiled"), "electra_tf": ("",)}
_PRECISIONS = ("float32", "bfloat16")
_SIZES = {
    "small": {"embedding_size": 128, "hidden_size": 256, "heads": 4},
    "base": {"embedding_size": 768, "hidden_size": 768, "heads": 12},
}

Times = list[dict[str, float]]
"""Of each turn: "cpu" and "wall", seconds of an update."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What is measured."""

    job: str = one_of("pretrain", "finetune")
    """Pre-training with ELECTRA, or fine-tuning a classifier."""

    size: str = one_of("small", "base")
    """Of the encoder, 12 layers."""

    batch_size: int = 32
    """Rows in an update."""

    max_seq_length: int = 128
    """Tokens in a row."""

    threads: int = 2
    """Threads of each peer."""

    peers: tuple[str, ...] = ("electra_tf", "torch")
    """Who is measured."""

    turns: int = 7
    """Turns of each peer and precision."""

    steps: int = 2
    """Updates in a turn."""

    num_hidden_layers: int = 12
    """Layers of the encoder."""

    vocab_size: int = 30522
    """Tokens."""

    def __post_init__(self) -> None:
        counts = (
            "batch_size max_seq_length threads turns steps num_hidden_layers"
        )
        require(self, counts, "at least 1", lambda n: n >= 1)
        require_choices(self)

    def setting(self, precision: str, variant: str) -> str:
        """Returns the setting of a worker, as JSON."""
        size = _SIZES[self.size]
        sizes = {
            "vocab_size": self.vocab_size,
            "embedding_size": size["embedding_size"],
            "hidden_size": size["hidden_size"],
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": size["heads"],
            "intermediate_size": 4 * size["hidden_size"],
        }
        return json.dumps(
            {
                "precision": precision,
                "sizes": sizes,
                "batch_size": self.batch_size,
                "length": self.max_seq_length,
                "threads": self.threads,
                "variant": variant,
            }
        )


class Worker:
    """A process that trains on request.

    Args:
      job: "pretrain" or "finetune".
      peer: "electra_tf" or "torch".
      setting: as JSON.

    Attributes:
      versions: of its libraries.
    """

    def __init__(self, job: str, peer: str, setting: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, _WORKER, job, peer, setting],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.versions = self._answer()
        self.update(2)  # traces, compiles, and makes the optimizer's slots

    def update(self, count: int) -> dict[str, float]:
        """Makes updates, and returns the seconds that one took."""
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"A worker ended: {self._process.args[2:]}.")
        return json.loads(line)


def main(config: BenchmarkConfig) -> None:
    """Lets the peers take turns, and prints the figures."""
    workers = {}
    for precision in _PRECISIONS:
        for peer in config.peers:
            for variant in VARIANTS[peer]:
                name = "-".join(filter(None, (peer, precision, variant)))
                setting = config.setting(precision, variant)
                workers[name] = Worker(config.job, peer, setting)
    times: dict[str, Times] = {name: [] for name in workers}
    for turn in range(config.turns):
        names = sorted(workers, reverse=turn % 2 == 1)
        for name in names:
            times[name].append(workers[name].update(config.steps))
    versions = {}
    for worker in workers.values():
        versions |= worker.versions
        worker.close()
    print(json.dumps(_report(config, times, versions)))


def _report(
    config: BenchmarkConfig,
    times: Mapping[str, Times],
    versions: Mapping[str, str],
) -> dict:
    ratios = {
        precision: _ratios(precision, times)
        for precision in _PRECISIONS
        if len(config.peers) > 1
    }
    return {
        "benchmark": "peer_step",
        **versions,
        **machine.describe(),
        **dataclasses.asdict(config),
        "seconds_per_step": {
            name: {kind: _spread(times[name], kind) for kind in ("cpu", "wall")}
            for name in times
        },
        "torch_over_electra_tf": ratios,
    }


def _ratios(precision: str, times: Mapping[str, Times]) -> dict[str, float]:
    """Returns how many times ours PyTorch needs, in the median over turns."""
    rivals = [times[f"torch-{precision}-{x}"] for x in VARIANTS["torch"]]
    rival = min(rivals, key=lambda x: statistics.median(t["cpu"] for t in x))
    ours = times[f"electra_tf-{precision}"]
    return {
        kind: statistics.median(
            a[kind] / b[kind] for a, b in zip(rival, ours, strict=True)
        )
        for kind in ("cpu", "wall")
    }


def _spread(times: Times, kind: str) -> dict[str, float]:
    values = [time[kind] for time in times]
    return {
        "min": min(values),
        "median": statistics.median(values),
        "max": max(values),
    }


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
