"""Measures how one of several workers reads its rows: prints one JSON line.

    python tools/benchmarks/read_records.py --data_dir=DIR

For each number of workers, the first of them reads its rows of two epochs, as
in training but with nothing to compute. Files should be in the page cache.
"""

import dataclasses
import json
import pathlib
import time
from collections.abc import Iterator

import machine
import tensorflow as tf
from open_records import open_data

from electra_tf.data.records import Records
from electra_tf.pretrain.pretrain_data import Inputs, training_dataset
from electra_tf.util import config_flags, memory

_COUNTERS = pathlib.Path("/proc/self/io")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What to measure."""

    data_dir: str = ""
    """Directory with a vocabulary and `pretrain_tfrecords`."""

    max_seq_length: int = 128
    """Tokens in a row."""

    num_workers: tuple[int, ...] = (1, 2, 4, 8)
    """Workers that share a global batch."""

    batch_size: int = 512
    """Rows of a global batch."""

    shuffle_megabytes: float = 32.0
    """Size of the groups of files; one or two are read ahead."""


def main(config: BenchmarkConfig) -> None:
    """Reads with each number of workers, and prints the figures."""
    memory.keep()
    data = open_data(
        config.data_dir, config.max_seq_length, verify_records=False
    )
    (records,) = data.train.values()
    report = {
        "benchmark": "read_records",
        "tensorflow": tf.__version__,
        **machine.describe(),
        "rows": records.num_records,
        "mb": round(sum(f.num_bytes for f in records.files) / 1e6, 1),
        "files": len(records.files),
    }
    for num_workers in config.num_workers:
        report[f"workers_{num_workers}"] = _measure(
            config, records, num_workers
        )
    print(json.dumps(report))


def _measure(
    config: BenchmarkConfig, records: Records, num_workers: int
) -> list[dict[str, float]]:
    """Returns speed and bytes of each epoch of the first worker."""
    batches = iter(
        training_dataset(
            records,
            batch_size=config.batch_size,
            seed=0,
            shuffle_megabytes=config.shuffle_megabytes,
            num_workers=num_workers,
        )
    )
    return [_measure_epoch(config, records, batches) for _ in range(2)]


def _measure_epoch(
    config: BenchmarkConfig, records: Records, batches: Iterator[Inputs]
) -> dict[str, float]:
    """Returns global rows a second, CPU seconds and megabytes of an epoch."""
    num_batches = records.num_records // config.batch_size
    before = _bytes_read()
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(num_batches):
        next(batches)
    seconds = time.perf_counter() - start
    return {
        "global_rows_per_s": round(num_batches * config.batch_size / seconds),
        "cpu_s": round(time.process_time() - cpu, 2),
        "read_mb": round((_bytes_read() - before) / 1e6, 1),
    }


def _bytes_read() -> int:
    """Returns the bytes that this process has read from files (Linux)."""
    return int(_COUNTERS.read_text().split()[1])


if __name__ == "__main__":
    config_flags.run(main, BenchmarkConfig)
