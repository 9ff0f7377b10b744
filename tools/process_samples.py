"""Memory, open files and threads of another process, and how they grow.

Samples that follow one another are alike, so that they tell less than their
number says: the interval of a slope is that of the means of 20 blocks in a row.
"""

import os
import pathlib
import re
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.util.errors import UserError

_NUM_BLOCKS = 20
_STUDENT_T = 2.100922  # of 18 degrees of freedom, two-sided 95 %
_PROC = pathlib.Path("/proc")


class Sample(NamedTuple):
    """A look at a process.

    Attributes:
      progress: updates, trials or requests that are done.
      memory_mb: that no file backs, 10^6 bytes.
      open_files: descriptors, sockets among them.
      threads: of the process.
    """

    progress: float
    memory_mb: float
    open_files: int
    threads: int


class Slope(NamedTuple):
    """A slope and its 95 % interval.

    Attributes:
      value: of the line by least squares through the means of blocks.
      low: end of the interval.
      high: other end.
    """

    value: float
    low: float
    high: float


def take(pid: int, progress: float) -> Sample | None:
    """Looks at a process.

    Args:
      pid: of the process.
      progress: that it has made.

    Returns:
      None if the process has ended.
    """
    directory = _PROC / str(pid)
    try:
        status = (directory / "status").read_text("utf-8", "replace")
        open_files = len(os.listdir(directory / "fd"))
    except OSError:
        return None
    found = dict(re.findall(r"^(\w+):\s+(\d+)", status, re.MULTILINE))
    if "RssAnon" not in found:
        return None  # it has ended, and nobody has waited for it
    memory = int(found["RssAnon"]) * 1024 / 1e6
    return Sample(progress, memory, open_files, int(found["Threads"]))


def watch(
    pid: int,
    progress: Callable[[], float],
    is_done: Callable[[float], bool],
    seconds_between: float,
) -> list[Sample]:
    """Looks at a process again and again.

    Args:
      pid: of the process.
      progress: says how far it is.
      is_done: waits for so many seconds; true once there is nothing more to
        watch.
      seconds_between: two looks.

    Returns:
      In the order of time.
    """
    samples = []
    while not is_done(seconds_between):
        if sample := take(pid, progress()):
            samples.append(sample)
    return samples


def slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """Fits a line to the means of blocks of a series.

    Args:
      x: ascending [n].
      y: [n], each like those before it.

    Raises:
      UserError: if there are fewer than two of each block, or if x stays.
    """
    points = np.column_stack([x, y])
    if len(points) < 2 * _NUM_BLOCKS or points[0, 0] == points[-1, 0]:
        raise UserError(
            f"A slope needs {2 * _NUM_BLOCKS} samples of a process that goes "
            f"on. Received: {len(points)} after the warm-up. Run it for "
            "longer, or look more often (--seconds_between_samples)."
        )
    blocks = np.array_split(points, _NUM_BLOCKS)
    x, y = np.array([block.mean(0) for block in blocks]).T
    x, y = x - x.mean(), y - y.mean()
    value = x @ y / (x @ x)
    residuals = y - value * x
    variance = residuals @ residuals / (_NUM_BLOCKS - 2) / (x @ x)
    half = _STUDENT_T * variance**0.5
    return Slope(float(value), float(value - half), float(value + half))


def summarize(samples: Sequence[Sample]) -> dict[str, object]:
    """Says how a process grew.

    Args:
      samples: after its warm-up.

    Returns:
      For a report: number of samples, memory, its slope per 1,000 of progress,
      open files and threads.
    """
    found = slope([x.progress / 1000 for x in samples], _memory(samples))
    return {
        "samples": len(samples),
        "memory_mb": _spread(_memory(samples)),
        "memory_mb_per_1000": found._asdict(),
        "open_files": _spread([x.open_files for x in samples]),
        "threads": _spread([x.threads for x in samples]),
    }


def _memory(samples: Sequence[Sample]) -> list[float]:
    return [x.memory_mb for x in samples]


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Returns the first, the least, the median, the most and the last."""
    return {
        "first": values[0],
        "min": min(values),
        "median": statistics.median(values),
        "max": max(values),
        "last": values[-1],
    }
