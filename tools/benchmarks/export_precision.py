r"""Measures size, speed and error of an encoder exported in each precision.

    python tools/benchmarks/export_precision.py --size=small

The encoders have the same random weights. Their SavedModels, which take ids,
are timed in turn in one process. It prints one JSON line: bytes of the graph,
milliseconds of a call on full rows, and the largest difference of a state from
float32's.
"""

import dataclasses
import json
import pathlib
import tempfile
import time
from collections.abc import Callable

import keras
import machine
import numpy as np
import tensorflow as tf
from peers import encoder_sizes
from reports import spread

from electra_tf.config.model import BertConfig
from electra_tf.model.layers import POLICIES
from electra_tf.model.networks import EncoderWithHead
from electra_tf.serving import saved_models
from electra_tf.util import config_flags, signals
from electra_tf.util.config_fields import Checked, bounded, one_of

_PRECISIONS = ("float32", "bfloat16", "int8")
_NAMES = ("input_ids", "input_mask", "segment_ids")

States = Callable[[int], np.ndarray]
"""Number of rows -> states of random rows, [B, L, H]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(Checked):
    """What to measure."""

    size: str = one_of("small", "base")
    """Size of the encoder, which has 12 layers."""

    batch_sizes: tuple[int, ...] = (1, 32)
    """Rows in a call; each number is measured."""

    length: int = bounded("at least 1", 64)
    """Tokens in a row."""

    turns: int = bounded("at least 1", 5)
    """Number of turns of each precision."""

    seconds: float = 0.2
    """Approximate duration of a turn, which repeats calls."""


@signals.interruptible(is_resumable=False)
def main(config: BenchmarkConfig) -> None:
    """Measures the precisions in turn, and prints the figures."""
    with tempfile.TemporaryDirectory() as directory:
        paths = {
            name: _export(config, name, pathlib.Path(directory, name))
            for name in _PRECISIONS
        }
        models = {name: _load(config, path) for name, path in paths.items()}
        sizes = {
            name: (path / "saved_model.pb").stat().st_size
            for name, path in paths.items()
        }
    exact = models["float32"](1)
    report = {
        "benchmark": "export_precision",
        "tensorflow": tf.__version__,
        **machine.describe(),
        **dataclasses.asdict(config),
        "bytes": sizes,
        "largest_difference": {
            name: float(np.abs(model(1) - exact).max())
            for name, model in models.items()
        },
        "milliseconds": {
            f"{rows}x{config.length}": _measure(config, models, rows)
            for rows in config.batch_sizes
        },
    }
    print(json.dumps(report))


def _export(
    config: BenchmarkConfig, precision: str, path: pathlib.Path
) -> pathlib.Path:
    sizes = BertConfig(
        **encoder_sizes(config.size, num_hidden_layers=12, vocab_size=30522)
    )
    keras.utils.set_random_seed(0)
    policy = POLICIES["float32" if precision == "int8" else precision]
    encoder = EncoderWithHead(sizes, dtype=policy).encoder

    def encode(*ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"states": encoder(*ids).sequence_output}

    endpoints = saved_models.with_constants(
        {"serving_default": encode}, [encoder], precision
    )
    spec = [tf.TensorSpec([None, None], tf.int32, name) for name in _NAMES]
    saved_models.write(path, endpoints, spec)
    return path


def _load(config: BenchmarkConfig, path: pathlib.Path) -> States:
    function = tf.saved_model.load(path).signatures["serving_default"]

    def run(num_rows: int) -> np.ndarray:
        shape = [num_rows, config.length]
        ids = np.random.default_rng(0).integers(5, 30522, shape)
        values = (ids, np.ones(shape), np.zeros(shape))
        tensors = (tf.constant(x, tf.int32) for x in values)
        return function(**dict(zip(_NAMES, tensors, strict=True)))[
            "states"
        ].numpy()

    return run


def _measure(
    config: BenchmarkConfig, models: dict[str, States], num_rows: int
) -> dict[str, dict[str, float]]:
    """Returns the milliseconds of a call, for each precision."""
    counts = {
        name: max(1, round(config.seconds / _seconds(model, num_rows, 1)))
        for name, model in models.items()
    }
    times = {name: [] for name in models}
    for turn in range(config.turns):
        for name in sorted(models, reverse=turn % 2 == 1):
            seconds = _seconds(models[name], num_rows, counts[name])
            times[name].append(1e3 * seconds)
    return {name: spread(values) for name, values in times.items()}


def _seconds(model: States, num_rows: int, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        model(num_rows)
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
