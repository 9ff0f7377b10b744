"""Memory that this process may still take, by the machine and by its limits.

A process that takes more is killed by the kernel, or ended inside TensorFlow,
without a message: what there is to say must be said before. Of Linux.
"""

import math
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from electra_tf.util.machine import proc_bytes, read_proc, read_text

_CGROUPS = pathlib.Path("/sys/fs/cgroup")
_CGROUP_FILES = (  # of version 2 and 1: the limit, and what is used of it
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


class FreeMemory(NamedTuple):
    """Memory that may still be taken.

    Attributes:
      num_bytes: infinite where nobody can tell.
      limit: who says so, for messages.
    """

    num_bytes: float
    limit: str


def find() -> FreeMemory:
    """Returns the least that machine, container and `ulimit -v` leave."""
    found = (
        FreeMemory(
            proc_bytes("meminfo", "MemAvailable") or math.inf, "the machine"
        ),
        FreeMemory(_of_cgroup(), "the memory limit of its control group"),
        FreeMemory(_of_address_space(), "`ulimit -v`"),
    )
    return min(found, key=lambda free: free.num_bytes)


def _of_cgroup() -> float:
    """Returns what the control group leaves, its file cache not counted."""
    for directory in _cgroup_directories():
        for names in _CGROUP_FILES:
            paths = (directory / name for name in names)
            limit, used = (read_text(path).strip() for path in paths)
            if limit.isdigit() and used.isdigit():  # not so: "max", no file
                stat = read_text(directory / "memory.stat")
                cache = _entry(stat, "inactive_file ")
                return float(int(limit) - int(used) + int(cache or 0))
    return math.inf


def _cgroup_directories() -> Iterator[pathlib.Path]:
    """Yields where the group may be; in a container it is the root."""
    for line in read_proc("self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS / "memory" if controllers else _CGROUPS
        yield from (root / path.lstrip("/"), root)


def _of_address_space() -> float:
    limit = _entry(read_proc("self/limits"), "Max address space ")
    if not limit[:1].isdigit():  # "unlimited"
        return math.inf
    return int(limit.split()[0]) - proc_bytes("self/status", "VmSize")


def _entry(text: str, beginning: str) -> str:
    """Returns the rest of the line that begins so; "" if there is none."""
    found = re.search(rf"^{beginning}\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""
