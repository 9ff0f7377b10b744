r"""Measures the encoder at inference against ONNX Runtime and PyTorch.

    python tools/benchmarks/environments.py --dir=DIR --names=electra_tf,onnx
    python tools/benchmarks/inference.py --environments=DIR

All peers (see `inference_peers.py`) have the random weights of one Hugging Face
`ElectraModel`, and read the same rows of random tokens, between half and
completely filled. Each runs in a process of its own, with the same number of
threads and the Python of its environment (without --environments, that of this
command), and they take turns. A turn disturbed by another process is repeated;
a busy machine is refused (`machine.py`). The run fails if states differ by 1e-3
or more from those of ONNX Runtime (or of the first peer, if ONNX Runtime is not
measured). It prints one JSON line: milliseconds of a call, and the ratio of our
time to the fastest rival's, turn by turn; above 1 ours is slower.
"""

import contextlib
import dataclasses
import json
import pathlib
import statistics
import tempfile
from collections.abc import Mapping

import checks
import environments
import inference_peers
import machine
import numpy as np
import workers
from peers import random_rows
from reports import median_ratio, spread

from electra_tf.util import config_flags, signals
from electra_tf.util.config_fields import bounded

_OURS = (
    "saved_model",
    "exported_onnx",
    "exported_tflite",
    "predict",
    "keras",
)
_RIVALS = ("torch", "torch_compiled", "onnx", "onnx_fused")
_WORKER = pathlib.Path(inference_peers.__file__)

Seconds = dict[str, list[float]]
"""Name of a peer -> seconds of a call in each turn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(environments.EncoderConfig):
    """What to measure."""

    batch_sizes: tuple[int, ...] = (1, 32)
    """Rows in a call; each number is measured."""

    lengths: tuple[int, ...] = (16, 64, 128, 512)
    """Tokens in a row; each number is measured."""

    peers: tuple[str, ...] = (
        "saved_model",
        "predict",
        "keras",
        *_RIVALS,
    )
    """Peers to measure: also exported_onnx, exported_tflite."""

    turns: int = bounded("at least 1", 5)
    """Number of turns of each peer and shape."""

    seconds: float = 0.2
    """Approximate duration of a turn, which repeats calls."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require_known(self, "peers", (*_OURS, *_RIVALS), some=True)
        checks.require_counts(self, "batch_sizes lengths")


class Worker(workers.Worker):
    """A process that encodes on request."""

    def __init__(
        self, name: str, setting: inference_peers.Setting, directory: str
    ) -> None:
        environment = "electra_tf" if name in _OURS else "onnx"
        python = environments.find_python(directory, environment)
        super().__init__(_WORKER, [name], setting, python)

    def encode(
        self, shape: tuple[int, int], count: int, output: str = ""
    ) -> float:
        """Encodes a batch `count` times; returns the seconds of one call."""
        request = {"shape": shape, "count": count, "output": output}
        return self.ask(request)["seconds"]


@signals.interruptible(is_resumable=False)
def main(config: BenchmarkConfig) -> None:
    """Measures the peers in turn, and prints the figures."""
    quiet = machine.QuietMachine(config.busy_limit)
    peers, versions = {}, {}
    with tempfile.TemporaryDirectory() as directory:
        setting = inference_peers.Setting(
            directory=directory,
            sizes=config.sizes,
            threads=config.threads,
        )
        Worker("torch_files", setting, config.environments).close()
        with contextlib.ExitStack() as stack:
            for name in config.peers:
                peers[name] = Worker(name, setting, config.environments)
                stack.callback(peers[name].close)
                versions |= peers[name].versions
            shapes = {
                f"{rows}x{length}": _measure(
                    config, peers, (rows, length), quiet, directory
                )
                for rows in config.batch_sizes
                for length in config.lengths
            }
    report = {"benchmark": "inference", **versions, **quiet.report()}
    report |= dataclasses.asdict(config)
    print(json.dumps(report | {"shapes": shapes}))


def _measure(
    config: BenchmarkConfig,
    peers: Mapping[str, Worker],
    shape: tuple[int, int],
    quiet: machine.QuietMachine,
    directory: str,
) -> dict:
    """Measures one shape, after comparing the states."""
    outputs, counts = {}, {}
    for name, worker in peers.items():
        outputs[name] = f"{directory}/{name}.npy"
        worker.encode(shape, 2, outputs[name])  # traces, compiles
        seconds = worker.encode(shape, 1)
        counts[name] = max(1, round(config.seconds / seconds))
    rng = np.random.default_rng(0)
    _, mask = random_rows(rng, config.vocab_size, shape)
    difference = _difference(outputs, mask > 0)
    times: Seconds = workers.take_turns(
        *(quiet, peers, config.turns),
        lambda name: peers[name].encode(shape, counts[name]),
    )
    return {
        "largest_difference": difference,
        "milliseconds": {
            name: spread(1e3 * seconds for seconds in values)
            for name, values in times.items()
        },
        "ours_over_fastest_rival": ratios(times),
    }


def ratios(times: Seconds) -> dict[str, float]:
    """Returns the ratio of our time to that of the fastest rival."""
    rivals = [values for name, values in times.items() if name not in _OURS]
    if not rivals:
        return {}
    rival = min(rivals, key=statistics.median)
    return {
        name: median_ratio(times[name], rival)
        for name in times
        if name in _OURS
    }


def _difference(outputs: Mapping[str, str], is_real: np.ndarray) -> float:
    """Returns the largest difference of states at tokens; checks all."""
    states = {name: np.load(path)[is_real] for name, path in outputs.items()}
    base = states.get("onnx", next(iter(states.values())))
    differences = {
        name: float(np.abs(x - base).max()) for name, x in states.items()
    }
    return checks.require_same("states", differences)


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
