"""The machine: processor, usable cores, memory, as Linux's /proc tells them."""

import os
import pathlib
import platform
import re

_PROC = pathlib.Path("/proc")


def read_text(path: pathlib.Path) -> str:
    """Returns the text of a file of the system; "" where there is none."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def read_proc(name: str) -> str:
    """Returns the text of a file of /proc; "" where there is none."""
    return read_text(_PROC / name)


def proc_entries(name: str) -> dict[str, str]:
    """Reads "name: value" lines of a file of /proc; the first of each name."""
    pairs = re.findall(r"^(.+?)\s*: *(.*)$", read_proc(name), re.MULTILINE)
    return dict(reversed(pairs))


def cpu_name() -> str:
    """Returns the processor's name and generation: "AMD EPYC, family 26".

    Virtual machines name processors of several generations, of which one is
    twice as fast as another, alike. Where nobody tells a name, its kind.
    """
    entries = proc_entries("cpuinfo")
    name = entries.get("model name") or platform.machine()
    if family := entries.get("cpu family"):
        return f"{name}, family {family}, model {entries.get('model', '?')}"
    return name


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def proc_bytes(name: str, entry: str) -> int:
    """Returns a size in a file of /proc, in bytes; 0 where nobody tells it."""
    kibibytes, *_ = proc_entries(name).get(entry, "0").split()
    return int(kibibytes) * 1024
