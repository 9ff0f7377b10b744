"""Measures the time a run takes to open its records; prints one JSON line.

    python tools/benchmarks/open_records.py --data_dir=DIR

In each round all records are read and verified, as on a first start, and then
opened as on a restart. The directory must be writable.
"""

import dataclasses
import json
import statistics
import time

import machine
import tensorflow as tf

from electra_tf.configure_pretraining import (
    CorpusConfig,
    PretrainingConfig,
    RunConfig,
    RuntimeConfig,
)
from electra_tf.data import preparation
from electra_tf.util import config_flags, memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What to measure."""

    data_dir: str = ""
    """Directory with a vocabulary and `pretrain_tfrecords`."""

    max_seq_length: int = 128
    """Tokens in a row."""

    rounds: int = 3
    """Number of measurements of each kind of start."""


def main(config: BenchmarkConfig) -> None:
    """Times both kinds of start in alternation, and prints the figures."""
    memory.keep()
    tf.constant(1.0) + 1.0  # starts TensorFlow
    times = {"verified": [], "restarted": []}
    for _ in range(config.rounds):
        for name, measured in times.items():
            cpu, start = time.process_time(), time.perf_counter()
            data = _open(config, verify_records=name == "verified")
            cpu, wall = time.process_time() - cpu, time.perf_counter() - start
            measured.append((wall, cpu))
    files = [f for records in data.train.values() for f in records.files]
    if data.held_out:
        files += data.held_out.files
    report = {
        "benchmark": "open_records",
        "tensorflow": tf.__version__,
        **machine.describe(),
        "gib": round(sum(file.num_bytes for file in files) / 2**30, 3),
        "files": len(files),
    }
    for name, measured in times.items():
        for kind, values in zip(
            ("s", "cpu_s"), zip(*measured, strict=True), strict=True
        ):
            report[f"{name}_{kind}"] = {
                "min": round(min(values), 3),
                "median": round(statistics.median(values), 3),
                "max": round(max(values), 3),
            }
    print(json.dumps(report))


def _open(
    config: BenchmarkConfig, *, verify_records: bool
) -> preparation.Prepared:
    return preparation.prepare(
        PretrainingConfig(
            run=RunConfig(data_dir=config.data_dir, model_name="benchmark"),
            corpus=CorpusConfig(max_seq_length=config.max_seq_length),
            runtime=RuntimeConfig(verify_records=verify_records),
        ),
        log=lambda _: None,
    )


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
