"""Samples memory, open files and threads of a process, and fits their growth.

Consecutive samples are correlated. The interval of a slope is therefore
computed from the means of 20 consecutive blocks of samples.
"""

import os
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis.reporting.statistics import Interval
from electra_tf.util import machine
from electra_tf.util.errors import UserError

_NUM_BLOCKS = 20
_STUDENT_T = 2.100922  # of 18 degrees of freedom, two-sided 95 %


class Sample(NamedTuple):
    """A sample of a process."""

    progress: float
    memory_mb: float
    open_files: int
    threads: int


def take(pid: int, progress: float) -> Sample | None:
    """Takes a sample of a process."""
    status = machine.proc_entries(f"{pid}/status")
    if "RssAnon" not in status:  # a zombie has ended, too
        return None
    try:
        open_files = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    memory = int(status["RssAnon"].split()[0]) * 1024 / 1e6
    return Sample(progress, memory, open_files, int(status["Threads"]))


def watch(
    pid: int,
    progress: Callable[[], float],
    is_done: Callable[[float], bool],
    seconds_between: float,
) -> list[Sample]:
    """Samples a process periodically."""
    samples = []
    while not is_done(seconds_between):
        if sample := take(pid, progress()):
            samples.append(sample)
    return samples


def slope(x: Sequence[float], y: Sequence[float]) -> Interval:
    """Fits a line to the means of blocks of a time series."""
    points = np.column_stack([x, y])
    if len(points) < 2 * _NUM_BLOCKS or points[0, 0] == points[-1, 0]:
        raise UserError(
            f"A slope needs at least {2 * _NUM_BLOCKS} samples with growing "
            f"progress. Received: {len(points)} after the warm-up. Run it for "
            "longer, or sample more often (--seconds_between_samples)."
        )
    blocks = np.array_split(points, _NUM_BLOCKS)
    x, y = np.array([block.mean(0) for block in blocks]).T
    x, y = x - x.mean(), y - y.mean()
    value = x @ y / (x @ x)
    residuals = y - value * x
    variance = residuals @ residuals / (_NUM_BLOCKS - 2) / (x @ x)
    half = _STUDENT_T * variance**0.5
    return Interval(float(value), float(value - half), float(value + half))


def summarize(samples: Sequence[Sample]) -> dict[str, object]:
    """Summarizes the growth of a process."""
    memory = [x.memory_mb for x in samples]
    found = slope([x.progress / 1000 for x in samples], memory)
    return {
        "samples": len(samples),
        "memory_mb": _spread(memory),
        "memory_mb_per_1000": found._asdict(),
        "open_files": _spread([x.open_files for x in samples]),
        "threads": _spread([x.threads for x in samples]),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Returns the first, least, median, greatest and last value."""
    return {
        "first": values[0],
        "min": min(values),
        "median": statistics.median(values),
        "max": max(values),
        "last": values[-1],
    }
