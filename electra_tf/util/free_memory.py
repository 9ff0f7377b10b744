"""Memory that this process may still allocate, on Linux.

A process that takes more than the machine or its limits allow is killed by the
kernel, or aborted inside TensorFlow, without a message. So the memory must be
checked before.
"""

import math
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from electra_tf.util.machine import proc_bytes, read_proc, read_text

_CGROUPS = pathlib.Path("/sys/fs/cgroup")
_CGROUP_FILES = (  # of cgroup versions 2 and 1: the limit, and the usage
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


class FreeMemory(NamedTuple):
    """Memory that may still be allocated."""

    num_bytes: float
    limit: str


def find() -> FreeMemory:
    """Returns the smallest of what machine, container and `ulimit -v` leave."""
    found = (
        FreeMemory(
            proc_bytes("meminfo", "MemAvailable") or math.inf, "the machine"
        ),
        FreeMemory(_free_in_cgroups(), "the memory limit of its control group"),
        FreeMemory(_free_in_address_space(), "`ulimit -v`"),
    )
    return min(found, key=lambda free: free.num_bytes)


def _free_in_cgroups() -> float:
    """Returns the bytes free in the control group and the groups around it."""
    return min(map(_free_in_cgroup, _cgroup_directories()), default=math.inf)


def _free_in_cgroup(directory: pathlib.Path) -> float:
    """Returns the bytes free in one control group."""
    for names in _CGROUP_FILES:
        paths = (directory / name for name in names)
        limit, used = (read_text(path).strip() for path in paths)
        if limit.isdigit() and used.isdigit():  # else "max", or no file
            stat = read_text(directory / "memory.stat")
            cache = _entry(stat, "inactive_file ")
            return float(int(limit) - int(used) + int(cache or 0))
    return math.inf


def _cgroup_directories() -> Iterator[pathlib.Path]:
    """Yields the directories of the control group and of its ancestors."""
    for line in read_proc("self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS / "memory" if controllers else _CGROUPS
        yield root
        while (group := root / path.lstrip("/")) != root:
            yield group
            path = str(pathlib.PurePosixPath(path).parent)


def _free_in_address_space() -> float:
    limit = _entry(read_proc("self/limits"), "Max address space ")
    if not limit[:1].isdigit():  # "unlimited"
        return math.inf
    return int(limit.split()[0]) - proc_bytes("self/status", "VmSize")


def _entry(text: str, beginning: str) -> str:
    """Returns the rest of the line with this beginning; "" if there is none."""
    found = re.search(rf"^{beginning}\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""
