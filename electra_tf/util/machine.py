"""The machine's processor, usable cores, memory and limit of open files."""

import os
import pathlib
import platform
import re
import resource

_PROC = pathlib.Path("/proc")


def read_text(path: pathlib.Path) -> str:
    """Returns the text of a system file; "" if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def read_proc(name: str) -> str:
    """Returns the text of a file of /proc; "" if it cannot be read."""
    return read_text(_PROC / name)


def proc_entries(name: str) -> dict[str, str]:
    """Reads the "name: value" lines of a /proc file; first wins per name."""
    pairs = re.findall(r"^(.+?)\s*: *(.*)$", read_proc(name), re.MULTILINE)
    return dict(reversed(pairs))


def cpu_name() -> str:
    """Returns the processor's name and generation: "AMD EPYC, family 26"."""
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


def allow_open_files(number: int) -> int:
    """Raises the limit of open files of this process, as far as it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= number:
        return number
    allowed = number if hard == resource.RLIM_INFINITY else min(number, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def proc_bytes(name: str, entry: str) -> int:
    """Returns a size in a file of /proc, in bytes; 0 where it is missing."""
    kibibytes, *_ = proc_entries(name).get(entry, "0").split()
    return int(kibibytes) * 1024
