"""Describes the machine of a benchmark, and guards it against other load.

Times are valid only if no other process computes. `QuietMachine` counts the CPU
time of all processes (/proc/stat) and subtracts that of the measured process
and its descendants (/proc/PID/stat): the rest is other load, including the time
stolen by the hypervisor. It refuses to start if other load exceeds a limit, and
repeats measurements that were disturbed.
"""

import collections
import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import resource
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from electra_tf.util.config_fields import Checked, bounded
from electra_tf.util.errors import UserError
from electra_tf.util.machine import (
    cpu_name,
    num_cores,
    proc_bytes,
    proc_entries,
    read_proc,
)

BUSY_LIMIT = 0.05
"""Default of the share of CPU time that other processes may use."""

_RELEVANT_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16")
_BFLOAT16 = {"avx512_bf16", "amx_bf16"}
_PROC = pathlib.Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal
_SAMPLE_SECONDS = 2.0
_MAX_ATTEMPTS = 5

Result = TypeVar("Result")


def describe() -> dict[str, object]:
    """Describes the machine for a report."""
    cpu = proc_entries("cpuinfo")
    instructions = set(cpu.get("flags", "").split())
    return {
        "cpu": cpu_name(),
        "cpu_family": cpu.get("cpu family"),
        "cpu_model": cpu.get("model"),
        "instructions": [x for x in _RELEVANT_FLAGS if x in instructions],
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "usable_cores": num_cores(),
        "threads_of_a_core": _num_threads_per_core(cpu),
        "memory_gb": proc_bytes("meminfo", "MemTotal") / 1e9,
        "free_memory_gb": proc_bytes("meminfo", "MemAvailable") / 1e9,
        "load": os.getloadavg()[0],
    }


def has_bfloat16() -> bool:
    """Returns whether the processor has instructions for bfloat16."""
    return not _BFLOAT16.isdisjoint(
        proc_entries("cpuinfo").get("flags", "").split()
    )


def versions(*packages: str) -> dict[str, str | None]:
    """Returns the versions of packages; None if one is not installed."""
    return {name: _version(name) for name in packages}


def peak_memory_gb() -> float:
    """Returns the peak memory of this process, 10^9 bytes."""
    # Unlike getrusage(2), VmHWM does not inherit the parent's peak.
    if peak := proc_bytes("self/status", "VmHWM"):
        return peak / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def busy_seconds(stat: str) -> float:
    """Sums the CPU seconds of all cores since boot."""
    ticks = stat.partition("\n")[0].split()[1:]
    return sum(int(ticks[i]) for i in _BUSY_FIELDS) / _TICKS_PER_SECOND


def tree_seconds(stats: Iterable[str], root: int) -> float:
    """Sums the CPU seconds of a process and its descendants."""
    children = collections.defaultdict(list)
    seconds = {}
    for stat in stats:
        pid = int(stat.partition(" ")[0])
        fields = stat.rpartition(")")[2].split()  # a name may hold spaces
        children[int(fields[1])].append(pid)
        # utime and stime, and those of children that have ended.
        seconds[pid] = sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
    total, pending = 0.0, [root]
    while pending:
        pid = pending.pop()
        total += seconds.get(pid, 0.0)
        pending += children[pid]
    return total


class OtherLoad:
    """CPU time that other processes use from now on."""

    def __init__(self, root: int | None = None) -> None:
        self._root = root or os.getpid()
        self._start = _CpuUse.of(self._root)

    def share(self) -> float | None:
        """Returns the share of the machine's CPU time that others used."""
        if self._start is None:
            return None
        used = _CpuUse.of(self._root)
        seconds = max(1.0, used.clock - self._start.clock)
        others = (used.busy - self._start.busy) - (used.own - self._start.own)
        return min(1.0, max(0.0, others / (seconds * os.cpu_count())))


class QuietMachine:
    """Takes measurements, and repeats those that other processes disturb."""

    def __init__(self, limit: float = BUSY_LIMIT) -> None:
        self._limit = limit
        self._machine = describe()
        self._num_repeated = self._num_in_a_row = 0
        load = OtherLoad()
        time.sleep(_SAMPLE_SECONDS if limit < 1 else 0.0)
        self._before = load.share()
        self._most = None
        if self._before is not None and self._before > limit:
            raise UserError(
                self._busy_message(self._before, "before the first turn")
            )

    def take(
        self, measure: Callable[[], Result], root: int | None = None
    ) -> Result:
        """Takes a measurement, and repeats it if others disturb it."""
        while True:
            load = OtherLoad(root)
            result = measure()
            if self.accepts(load.share()):
                return result

    def accepts(self, share: float | None) -> bool:
        """Returns whether a measurement counts, and records it."""
        if share is None or share <= self._limit:
            self._num_in_a_row = 0
            if share is not None:
                self._most = max(share, self._most or 0.0)
            return True
        self._num_repeated += 1
        self._num_in_a_row += 1
        if self._num_in_a_row == _MAX_ATTEMPTS:
            raise UserError(
                self._busy_message(
                    share, f"in the last of {_MAX_ATTEMPTS} attempts"
                )
            )
        return False

    def report(self) -> dict[str, object]:
        """Describes the machine and the load of others."""
        return {
            **self._machine,
            "other_load": {
                "limit": self._limit,
                "before": self._before,
                "most": self._most,
                "repeated": self._num_repeated,
            },
        }

    def _busy_message(self, share: float, when: str) -> str:
        return (
            f"Other processes must take at most {self._limit:.0%} of the "
            f"machine's CPU time. Received: {share:.0%} {when} (load "
            f"{os.getloadavg()[0]:.1f}). End them, or measure anyway "
            "with --busy_limit=1."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuietConfig(Checked):
    """Base of a benchmark's configuration: the load of others it accepts."""

    busy_limit: float = bounded("in [0, 1]", BUSY_LIMIT)
    """Greatest share of the machine's CPU time that other processes may use; 1
    for no limit."""


class _CpuUse(NamedTuple):
    """CPU time used up to some point in time, in seconds."""

    clock: float
    busy: float
    own: float

    @classmethod
    def of(cls, root: int) -> "_CpuUse | None":
        stat = read_proc("stat")
        if not stat.startswith("cpu "):
            return None
        paths = (f"{path.name}/stat" for path in _PROC.glob("[0-9]*"))
        stats = filter(None, map(read_proc, paths))  # some have ended meanwhile
        own = tree_seconds(stats, root)
        return cls(time.monotonic(), busy_seconds(stat), own)


def _num_threads_per_core(cpu: dict[str, str]) -> float | None:
    cores = int(cpu.get("cpu cores", 0))
    return int(cpu["siblings"]) / cores if cores else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
