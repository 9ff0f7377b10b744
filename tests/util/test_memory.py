"""Freed memory serves the next allocation without page faults."""

import resource
import subprocess
import sys

import pytest

from electra_tf.util import memory

_FAULTS = """
import ctypes, resource, sys
from electra_tf.util import memory
if sys.argv[1] == "keep" and not memory.keep():
    sys.exit(3)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
size = 1 << 26
def use():
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    libc.free(block)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(mode):
    command = [sys.executable, "-c", _FAULTS, mode]
    completed = subprocess.run(
        command, capture_output=True, text=True, check=False
    )
    if completed.returncode == 3:
        pytest.skip("The C library is not GNU's.")
    return int(completed.stdout)


def test_a_block_of_64_mib_faults_once_and_not_again_when_kept():
    num_pages = (1 << 26) // resource.getpagesize()
    assert _faults("keep") < num_pages / 100
    assert _faults("return") > num_pages / 100  # few if the pages are huge


def test_keep_if_reports_whether_memory_is_kept(monkeypatch):
    monkeypatch.setattr(memory, "keep", lambda: True)
    assert "--nokeep_memory" in memory.keep_if(True)
    monkeypatch.setattr(memory, "keep", lambda: False)
    assert "no mallopt" in memory.keep_if(True)
    monkeypatch.setattr(memory, "keep", lambda: pytest.fail("kept"))
    assert "returned" in memory.keep_if(False)


def test_another_c_library_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert not memory.keep()
