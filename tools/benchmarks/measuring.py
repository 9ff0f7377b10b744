"""What the benchmarks share: the machine, spreads, workers that take turns."""

import importlib.metadata
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
_RELEVANT_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
SIZES = {"small": (128, 256, 4), "base": (768, 768, 12)}
"""Name -> embedding size, hidden size, attention heads."""


def machine(*packages: str) -> dict[str, Any]:
    """Returns the processor, its instructions, and versions of packages."""
    cpu = pathlib.Path("/proc/cpuinfo")
    text = cpu.read_text() if cpu.exists() else ""
    fields = dict(re.findall(r"^(.+?)\s*: (.*)$", text, re.MULTILINE))
    flags = fields.get("flags", "").split()
    return {
        "cpu": fields.get("model name", platform.processor()),
        "family": fields.get("cpu family"),
        "instructions": [x for x in _RELEVANT_FLAGS if x in flags],
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "versions": {x: importlib.metadata.version(x) for x in packages},
    }


def spread(values: Iterable[float]) -> dict[str, float]:
    """Returns minimum, median and maximum."""
    values = list(values)
    return {
        "min": min(values),
        "median": statistics.median(values),
        "max": max(values),
    }


def median_ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the median of first / second, turn by turn."""
    return statistics.median(a / b for a, b in zip(first, second, strict=True))


def peak_memory_gb() -> float:
    """Returns this process's peak memory in 10^9 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def encoder_sizes(size: str, num_layers: int, vocab_size: int) -> dict:
    """Returns an encoder's sizes, by names common to Hugging Face and us."""
    embedding_size, hidden_size, heads = SIZES[size]
    return {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden_size,
    }


class Worker:
    """A process of a script with `--worker=NAME`, asked by lines of JSON."""

    def __init__(self, script: str, name: str, setting: Mapping) -> None:
        self._process = subprocess.Popen(
            [sys.executable, script, f"--worker={name}", json.dumps(setting)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def ask(self, request: Any) -> Any:  # noqa: ANN401 (JSON)
        """Returns the answer to a request."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            if line.startswith("{"):  # libraries print, too
                return json.loads(line)
        raise RuntimeError(f"{self._process.args} ended without an answer.")

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def answer_requests(answer: Callable[[Any], Mapping[str, Any]]) -> None:
    """Answers lines of JSON until input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def take_turns(
    workers: Mapping[str, Worker], num_turns: int, request: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Asks workers one after another, every other turn in reverse order."""
    answers: dict[str, list[Any]] = {name: [] for name in workers}
    for turn in range(num_turns):
        for name in sorted(workers, reverse=turn % 2 == 1):
            answers[name].append(workers[name].ask(request[name]))
    return answers


class Steps:
    """Makes whole updates of a run's model on rows of random tokens."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401 (a PretrainingConfig)
        import numpy as np
        import tensorflow as tf

        from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
        from electra_tf.pretrain import run
        from electra_tf.pretrain.pretrain_data import Inputs
        from electra_tf.training import training_utils
        from electra_tf.util import distribution

        first = len(SPECIAL_TOKENS)
        words = (
            f"w{i}" for i in range((config.corpus.vocab_size or 30522) - first)
        )
        vocabulary = Vocabulary((*SPECIAL_TOKENS, *words))
        strategy = distribution.make_strategy(config.runtime.strategy)
        self.model = run.make_model(config, vocabulary, strategy)
        shape = (
            strategy.num_replicas_in_sync,
            config.training.train_batch_size // strategy.num_replicas_in_sync,
            config.corpus.max_seq_length,
        )

        def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
            del context  # of one worker; a replica takes one element
            rng = np.random.default_rng(0)
            ids = rng.integers(first, vocabulary.size, shape).astype(np.int32)
            rows = Inputs(ids, np.ones_like(ids), np.zeros_like(ids))
            return tf.data.Dataset.from_tensor_slices(rows).repeat()

        self._batches = iter(
            strategy.distribute_datasets_from_function(batches)
        )
        self._block = training_utils.make_block(self.model, strategy)
        self._losses = training_utils.losses

    def losses(self, num_steps: int) -> Any:  # noqa: ANN401
        """Makes updates, and returns the loss at each, float64 [num_steps]."""
        sums = self._block(self._batches, num_steps)
        return self._losses(sums, self.model.loss_weights)

    def seconds(self, num_steps: int) -> float:
        """Makes updates, and returns the seconds of one update."""
        start = time.perf_counter()
        self._block(self._batches, num_steps)
        return (time.perf_counter() - start) / num_steps
