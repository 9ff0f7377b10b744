"""The workers that TF_CONFIG lists, and how they wait for each other at start.

TensorFlow waits for missing workers for an hour, without a message and without
reacting to signals. So each worker first listens on its port itself until it
has reached the ports of all others; only then TensorFlow, which needs the port,
is started.
"""

import json
import os
import re
import socket
import textwrap
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any, NamedTuple

from electra_tf.util import console
from electra_tf.util.errors import LostWorkerError, UserError, listed

EXAMPLE = (
    'TF_CONFIG=\'{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
    '"task": {"type": "worker", "index": 0}}\''
)

_KINDS = ("chief", "worker")
_ADDRESS = re.compile(r".+:\d+")
_ABORTED_BY = "Collective ops is aborted by: "
_ADVICE_IN_ERROR = re.compile("The (?:error could be from|tasks have crashed)")
_TO_CHIEF = "/tensorflow.CoordinationService/"
_MAX_TEXT = 200
_SILENT = re.compile(
    r"(?:stopped sending heartbeats\)|timed out task names):((?:\s*/job:\S+)+)"
)
_SECONDS_BETWEEN_TRIES = 0.5
_CONNECTION_TIMEOUT = 2.0


class Worker(NamedTuple):
    """A worker process of a cluster."""

    kind: str
    index: int
    address: str

    @property
    def task(self) -> str:
        """TensorFlow's name of the worker."""
        return f"/job:{self.kind}/replica:0/task:{self.index}"


def workers() -> list[Worker]:
    """Returns the workers that TF_CONFIG lists, the chief first."""
    cluster = _tf_config().get("cluster", {})
    if not isinstance(cluster, dict):
        raise _tf_config_error(f"`cluster` is {cluster!r}")
    found = []
    for kind in _KINDS:
        addresses = cluster.get(kind, [])
        if not isinstance(addresses, list) or not all(
            isinstance(x, str) and _ADDRESS.fullmatch(x) for x in addresses
        ):
            raise _tf_config_error(f"{kind!r} in `cluster` is {addresses!r}")
        found += [Worker(kind, i, text) for i, text in enumerate(addresses)]
    return found


def own_index() -> int:
    """Returns the index of this process in `workers()`."""
    task = _tf_config().get("task")
    if not isinstance(task, dict):
        raise _tf_config_error(f"`task` is {task!r}")
    kind, index = task.get("type"), task.get("index")
    if kind not in _KINDS:
        raise _tf_config_error(f"`type` in `task` is {kind!r}")
    numbers = [i for i, each in enumerate(workers()) if each.kind == kind]
    if type(index) is not int or not 0 <= index < len(numbers):
        raise _tf_config_error(
            f"`index` in `task` is {index!r}, with {len(numbers)} workers of "
            f"the type {kind!r} in `cluster`"
        )
    return numbers[index]


def wait_for_all(
    everyone: Sequence[Worker], number: int, join_timeout: float
) -> None:
    """Waits until every worker can be reached."""
    missing = [i for i in range(len(everyone)) if i != number]
    began = time.monotonic()
    progress = console.Periodic(console.say)
    with (
        _opened_port(everyone, number),
        futures.ThreadPoolExecutor(len(everyone)) as pool,
    ):
        while missing := _unreachable(pool, everyone, missing):
            waited = time.monotonic() - began
            if waited > join_timeout:
                raise _missing_error(everyone, missing, join_timeout)
            who = _worker_names(everyone, missing)
            text = f"Waiting for {who} ({waited:.0f} s of {join_timeout:.0f})."
            progress(lambda text=text: text)
            time.sleep(_SECONDS_BETWEEN_TRIES)


def lost_worker_error(
    everyone: Sequence[Worker], number: int, text: str
) -> LostWorkerError:
    """Returns an error that says which worker TensorFlow's error is about."""
    lost = _lost_workers(everyone, number, text)
    who = _worker_names(everyone, lost) if lost else "another worker"
    cause = _ADVICE_IN_ERROR.split(text.rpartition(_ABORTED_BY)[2])[0]
    return LostWorkerError(
        f"Lost {who}: it ended, hangs or cannot be reached; see its log. Give "
        "all workers the same command again: they resume from the last "
        f"checkpoint. (TensorFlow: {textwrap.shorten(cause, _MAX_TEXT)})"
    )


def _lost_workers(
    everyone: Sequence[Worker], number: int, text: str
) -> list[int]:
    """Returns the lost workers, judged by TensorFlow's text and open ports."""
    others = [i for i in range(len(everyone)) if i != number]
    if silent := _SILENT.search(text):
        return [i for i in others if _names_task(silent[1], everyone[i])]
    if _TO_CHIEF in text and number:
        return [0]
    closed = [i for i in others if not _is_listening(everyone[i].address)]
    blamed = [i for i in others if _names_task(text, everyone[i])]
    return [i for i in closed if i in blamed] or closed or blamed


def _names_task(text: str, worker: Worker) -> bool:
    """Returns whether a text names a worker's task (task:1, not task:11)."""
    return bool(re.search(rf"{worker.task}\b", text))


def _unreachable(
    pool: futures.Executor, everyone: Sequence[Worker], numbers: Sequence[int]
) -> list[int]:
    """Returns the workers that do not answer; all are asked at once."""
    found = pool.map(_is_listening, [everyone[i].address for i in numbers])
    return [i for i, there in zip(numbers, found, strict=True) if not there]


def _is_listening(address: str) -> bool:
    """Returns whether a process listens at an address, host:port."""
    host, _, port = address.rpartition(":")
    try:
        where = (host.strip("[]"), int(port))
        socket.create_connection(where, _CONNECTION_TIMEOUT).close()
    except (OSError, OverflowError):
        return False
    return True


def _worker_names(everyone: Sequence[Worker], numbers: Sequence[int]) -> str:
    """Returns workers as text, by number and address."""
    return listed([f"worker {i} at {everyone[i].address}" for i in numbers])


def _opened_port(everyone: Sequence[Worker], number: int) -> socket.socket:
    """Opens the port of this worker."""
    address = everyone[number].address
    is_dual = socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            ("", int(address.rpartition(":")[2])),
            family=socket.AF_INET6 if is_dual else socket.AF_INET,
            backlog=len(everyone),
            dualstack_ipv6=is_dual,
        )
    except (OSError, OverflowError) as error:
        raise UserError(
            f"The port of {address}, which TF_CONFIG gives to this worker, "
            f"number {number}, must be free on this machine. Received: "
            f"{error}. End the process that uses it, for example a worker of "
            "an earlier run, or give every worker a TF_CONFIG with another "
            "port."
        ) from error


def _missing_error(
    everyone: Sequence[Worker], missing: Sequence[int], join_timeout: float
) -> LostWorkerError:
    return LostWorkerError(
        f"All {len(everyone)} workers must start within {join_timeout:g} "
        "seconds. Received: no answer from "
        f"{_worker_names(everyone, missing)}. Start all "
        "with the same TF_CONFIG except for `index`, check that this machine "
        "can reach those ports, or wait longer with --join_timeout."
    )


def _tf_config() -> dict[str, Any]:
    """Returns the content of TF_CONFIG; empty where it is not set."""
    try:
        config = json.loads(os.environ.get("TF_CONFIG", "") or "{}")
    except ValueError as error:
        raise _tf_config_error(f"invalid JSON ({error})") from error
    if not isinstance(config, dict):
        raise _tf_config_error("JSON that is not a dictionary")
    return config


def _tf_config_error(received: str) -> UserError:
    return UserError(
        "The environment variable TF_CONFIG must be a JSON dictionary that "
        "lists all workers by host:port and says which of them this one is, as "
        f"in {EXAMPLE}. Received: {received}."
    )
