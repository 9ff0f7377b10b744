r"""Measures the encoder at inference against ONNX Runtime and PyTorch.

    python tools/benchmarks/environments.py --dir=DIR --names=onnx
    python tools/benchmarks/inference.py --peer_python=DIR/onnx/bin/python

All have the weights of one Hugging Face `ElectraModel`, of random values, and
the same rows of random tokens, half to wholly filled. `inference_peers.py` says
who the peers are. Each is a process of its own, with as many threads, and they
take turns. States that differ by 1e-3 or more from those of ONNX Runtime (of
the first peer, where it is not measured) are no answer: the run is refused. It
prints one JSON line: seconds of a call, and how many times those of the
fastest rival ours takes, turn by turn; above 1 ours is slower.
"""

import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import inference_peers
import machine
import numpy as np
from reports import spread

from electra_tf.util import config_flags
from electra_tf.util.config_fields import one_of, require, require_choices
from electra_tf.util.errors import UserError

_OURS = (
    "saved_model",
    "exported_onnx",
    "exported_tflite",
    "predict",
    "keras",
)
_WORKER = pathlib.Path(inference_peers.__file__)
_LARGEST_DIFFERENCE = 1e-3
_SIZES = {
    "small": (128, 256, 4),
    "base": (768, 768, 12),
    "demo": (128, 128, 4),
}

Seconds = dict[str, list[float]]
"""Name of a peer -> seconds of a call in each turn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What is measured."""

    size: str = one_of("small", "base", "demo")
    """Of the encoder: `demo` is that of configs/demo.cfg, given its layers and
    tokens."""

    batch_sizes: tuple[int, ...] = (1, 32)
    """Rows in a call."""

    lengths: tuple[int, ...] = (16, 64, 128, 512)
    """Tokens in a row."""

    threads: int = 2
    """Threads of each peer."""

    clock: str = one_of("wall", "cpu")
    """Time of a call, or the CPU time of its process, which of one thread is
    about the same and tells speeds while other programs run."""

    peers: tuple[str, ...] = (
        "saved_model",
        "predict",
        "keras",
        "torch",
        "torch_compiled",
        "onnx",
        "onnx_fused",
    )
    """Who is measured."""

    peer_python: str = sys.executable
    """Interpreter of those that are not electra_tf."""

    turns: int = 5
    """Turns of each peer and shape."""

    seconds: float = 0.2
    """Least time of a turn: calls are repeated until then."""

    num_hidden_layers: int = 12
    """Layers of the encoder."""

    vocab_size: int = 30522
    """Tokens."""

    def __post_init__(self) -> None:
        require(
            self, "threads turns num_hidden_layers", "at least 1", lambda n: n
        )
        require_choices(self)

    @property
    def sizes(self) -> dict[str, int]:
        """The fields of Hugging Face's configuration."""
        embedding_size, hidden_size, heads = _SIZES[self.size]
        return {
            "vocab_size": self.vocab_size,
            "embedding_size": embedding_size,
            "hidden_size": hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden_size,
        }


class Worker:
    """A process that encodes on request.

    Args:
      name: of the peer.
      python: its interpreter.
      setting: of `inference_peers`.

    Attributes:
      versions: of its libraries.
    """

    def __init__(
        self, name: str, python: str, setting: inference_peers.Setting
    ) -> None:
        text = json.dumps(dataclasses.asdict(setting))
        self._process = subprocess.Popen(
            [python, _WORKER, name, text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.versions = self._answer()

    def encode(
        self, shape: tuple[int, int], count: int, output: str = ""
    ) -> float:
        """Encodes a batch so many times; returns the seconds of a call."""
        names = ("batch_size", "length", "count", "output")
        values = (*shape, count, output)
        request = dict(zip(names, values, strict=True))
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()["seconds"]

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict:
        while line := self._process.stdout.readline():
            if line.startswith("{"):  # libraries print, too
                return json.loads(line)
        raise RuntimeError(f"A worker ended: {self._process.args[2]}.")


def main(config: BenchmarkConfig) -> None:
    """Lets the peers take turns, and prints the figures."""
    with tempfile.TemporaryDirectory() as directory:
        setting = inference_peers.Setting(
            directory=directory,
            sizes=config.sizes,
            threads=config.threads,
            clock=config.clock,
        )
        Worker("torch_files", config.peer_python, setting).close()
        workers = {
            name: Worker(
                name,
                sys.executable if name in _OURS else config.peer_python,
                setting,
            )
            for name in config.peers
        }
        shapes = {
            f"{rows}x{length}": _measure(
                config, workers, (rows, length), pathlib.Path(directory)
            )
            for rows in config.batch_sizes
            for length in config.lengths
        }
    versions = {}
    for worker in workers.values():
        versions |= worker.versions
        worker.close()
    report = {"benchmark": "inference", **versions, **machine.describe()}
    print(json.dumps(report | dataclasses.asdict(config) | {"shapes": shapes}))


def _measure(
    config: BenchmarkConfig,
    workers: Mapping[str, Worker],
    shape: tuple[int, int],
    directory: pathlib.Path,
) -> dict:
    """Measures one shape, after a look at the states."""
    outputs, counts = [], {}
    for name, worker in workers.items():
        path = directory / f"{name}.npy"
        worker.encode(shape, 2, str(path))  # traces, compiles
        outputs.append(path)
        seconds = worker.encode(shape, 1)
        counts[name] = max(1, round(config.seconds / seconds))
    _, mask = inference_peers.batch(config.vocab_size, *shape)
    difference = _difference(list(workers), outputs, mask > 0)
    times: Seconds = {name: [] for name in workers}
    for turn in range(config.turns):
        for name in sorted(workers, reverse=turn % 2 == 1):
            seconds = workers[name].encode(shape, counts[name])
            times[name].append(seconds)
    return {
        "largest_difference": difference,
        "milliseconds": {
            name: spread(1e3 * seconds for seconds in values)
            for name, values in times.items()
        },
        "ours_over_fastest_rival": ratios(times),
    }


def ratios(times: Seconds) -> dict[str, float]:
    """Returns the seconds of ours over the fastest rival's, in the median.

    Args:
      times: of a shape.

    Returns:
      Name of each of ours -> median over turns; empty without a rival.
    """
    rivals = [values for name, values in times.items() if name not in _OURS]
    if not rivals:
        return {}
    rival = min(rivals, key=statistics.median)
    return {
        name: statistics.median(
            a / b for a, b in zip(times[name], rival, strict=True)
        )
        for name in times
        if name in _OURS
    }


def _difference(
    names: Sequence[str], outputs: Sequence[pathlib.Path], is_real: np.ndarray
) -> float:
    """Returns the largest difference of states; refuses those that differ."""
    states = [np.load(path)[is_real] for path in outputs]
    base = names.index("onnx") if "onnx" in names else 0
    differences = {
        name: float(np.abs(x - states[base]).max())
        for name, x in zip(names, states, strict=True)
    }
    others = [
        name
        for name, difference in differences.items()
        if not difference < _LARGEST_DIFFERENCE  # nor is NaN
    ]
    if others:
        raise UserError(
            f"All peers must find the same states, within "
            f"{_LARGEST_DIFFERENCE}. Received: {differences[others[0]]} from "
            f"{others[0]}. No time is reported."
        )
    return max(differences.values())


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
