"""Worker processes, which answer requests in lines of JSON."""

import contextlib
import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import environments
import machine

from electra_tf.util.errors import UserError

Answer = TypeVar("Answer")


class Worker:
    """A process that answers requests, see `peers.answer_requests`."""

    def __init__(
        self,
        script: pathlib.Path,
        names: Sequence[str],
        setting: Any,  # noqa: ANN401 (a dataclass)
        python: str = sys.executable,
    ) -> None:
        words = json.dumps(dataclasses.asdict(setting))
        self._process = subprocess.Popen(
            [python, script, *names, words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environments.variables(),
        )
        self.pid = self._process.pid
        self.versions = self._answer()

    def ask(self, request: Any) -> Any:  # noqa: ANN401 (JSON)
        """Returns the answer to a request; both are JSON."""
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()

    def _answer(self) -> Any:  # noqa: ANN401 (JSON)
        while line := self._process.stdout.readline():
            if line.startswith("{"):  # libraries print, too
                return json.loads(line)
        raise UserError(
            "A worker must answer. Received: nothing from "
            f"{self._process.args[0]} for {self._process.args[2:]}. See its "
            "error above: install missing packages in --environments; if "
            "memory is short, measure fewer or smaller peers."
        )


def take_turns(
    quiet: machine.QuietMachine,
    workers: Mapping[str, Worker],
    num_turns: int,
    ask: Callable[[str], Answer],
) -> dict[str, list[Answer]]:
    """Asks workers one after another, every other turn in reverse order."""
    found: dict[str, list[Answer]] = {name: [] for name in workers}
    for turn in range(num_turns):
        for name in sorted(workers, reverse=turn % 2 == 1):
            one = functools.partial(ask, name)
            found[name].append(quiet.take(one, workers[name].pid))
    return found
