"""The machine that a benchmark ran on, as its report names it."""

import os
import pathlib
import platform
import re

_TELLING = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe() -> dict[str, object]:
    """Returns the processor, its vector instructions, its cores and its load.

    The load is that of the last minute: what else ran there beforehand.
    """
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        text = ""
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.+)$", text, re.MULTILINE)
    there = set(flags[1].split()) if flags else set()
    return {
        "cpu": model[1] if model else platform.processor(),
        "instructions": [name for name in _TELLING if name in there],
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
