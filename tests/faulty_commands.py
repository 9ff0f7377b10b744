"""Commands with an injected fault: a signal, or a read-only directory.

A server imports TensorFlow once and forks a process for each command. An audit
hook records the places where a command changes the file system from Python:
names that it opens for writing, makes, moves and removes. The fault is
injected at one of these places. A server may have a disk of its own, in
namespaces where it may mount one.
"""

import functools
import importlib
import itertools
import json
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from typing import NamedTuple

_ROOT = pathlib.Path(__file__).parent.parent
_MODULES = (
    "electra_tf.data.build",
    "electra_tf.finetune.run.finetuning_run",
    "electra_tf.pretrain.run",
)
_CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SECONDS = 240
_DAY = 86_400.0
_FAULT = "fault at"


class Fault(NamedTuple):
    """A fault of a command, and its place.

    Attributes:
      name: a signal, or "read-only", a mount over the directory.
      at: number of the place, from 1, among those whose name contains `path`.
      path: part of the names that count.
      seconds: delay of the signal after that place.
    """

    name: str
    at: int = 1
    path: str = ""
    seconds: float = 0.0


class CommandResult(NamedTuple):
    """The result of a command.

    Attributes:
      code: exit code; minus the signal, if one killed it.
      output: standard output and error.
      places: event and name of each change of the file system, in order.
      seconds: from the fault to the exit; 0 without a fault.
    """

    code: int
    output: str
    places: list[str]
    seconds: float


class Server:
    """Runs commands one by one.

    Args:
      scratch: directory for outputs, outside of those that a test inspects.
      has_disk: whether it runs in namespaces where it can mount a disk.
    """

    def __init__(self, scratch, *, has_disk=False):
        self._scratch = scratch
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(
            ["unshare", "-rm", *command] if has_disk else command,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, directory, module, *flags, fault=None, has_clock=True):
        """Runs a command.

        Args:
          directory: names below it count as places.
          module: the command's module in `electra_tf`.
          *flags: its flags.
          fault: injected into it.
          has_clock: whether the time of day is right; if not, it jumps back
            and ahead by a day from one reading to the next.
        """
        request = {
            "directory": str(directory),
            "words": [module, *map(str, flags)],
            "fault": fault,
            "has_clock": has_clock,
            "output": str(self._scratch / "output"),
            "places": str(self._scratch / "places"),
        }
        code, end = self._ask(request), time.monotonic()
        output, places = (
            (self._scratch / name).read_text("utf-8")
            for name in ("output", "places")
        )
        fault_match = re.search(f"^{_FAULT} (.*)\n", places, re.MULTILINE)
        seconds = end - float(fault_match[1]) if fault_match else 0.0
        lines = places.splitlines()
        names = [line for line in lines if not line.startswith(_FAULT)]
        return CommandResult(code, output, names, seconds)

    def mount(self, *words):
        """Calls `mount` in the namespaces of the server."""
        assert self._ask({"mount": list(map(str, words))}) == 0

    def outside_path(self, path):
        """Returns the path at which other processes find one of the server."""
        return pathlib.Path(f"/proc/{self._process.pid}/root{path}")

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _ask(self, request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@functools.cache
def can_mount():
    """Returns whether a server can have a disk of its own."""
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _serve():
    for name in _MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if "mount" in request:
            code = subprocess.run(["mount", *request["mount"]]).returncode
        else:
            pid = os.fork()
            if not pid:
                _run(request)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


def _run(request):
    """Runs the command in the forked process, and exits."""
    signal.alarm(_SECONDS)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    output = os.open(request["output"], flags)
    for number in (1, 2):
        os.dup2(output, number)
    if not request["has_clock"]:
        _break_clock()
    module, *_ = sys.argv = request["words"]
    _record_changes(request, os.open(request["places"], flags))
    code = None
    try:
        runpy.run_module(
            f"electra_tf.{module}", run_name="__main__", alter_sys=True
        )
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    os._exit(code or 0)  # a fork must skip Python's exit handlers


def _break_clock():
    true_time, days = time.time, itertools.cycle((0, -_DAY, _DAY))
    time.time = lambda: true_time() + next(days)
    time.time_ns = lambda: int(time.time() * 1e9)


def _record_changes(request, places):
    """Records the places of this process, and injects the fault at one."""
    directory = request["directory"]
    fault = Fault(*request["fault"]) if request["fault"] else None
    count = 0

    def hook(event, args):
        nonlocal count
        if event == "open":
            changes = args[2] is not None and args[2] & _WRITES
        else:
            changes = event in _CHANGES
        if not changes or isinstance(args[0], int):
            return
        path = os.fsdecode(args[0])
        is_relative = event != "open" and args[-1] != -1
        if not (path.startswith(directory) or is_relative):
            return
        os.write(places, f"{event} {path}\n".encode())
        if fault and fault.path in path:
            count += 1
            if count == fault.at:
                now = f"{_FAULT} {time.monotonic()}\n"
                os.write(places, now.encode())
                _inject(fault, directory)

    sys.addaudithook(hook)


def _inject(fault, directory):
    if fault.name == "read-only":
        subprocess.run(["mount", "--bind", directory, directory], check=True)
        words = ["mount", "-o", "remount,ro,bind", directory]
        subprocess.run(words, check=True)
        return
    words = (os.getpid(), signal.Signals[fault.name])
    if fault.seconds:
        timer = threading.Timer(fault.seconds, os.kill, words)
        timer.daemon = True
        timer.start()
    else:
        os.kill(*words)


if __name__ == "__main__":
    _serve()
