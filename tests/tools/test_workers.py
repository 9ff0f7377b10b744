"""Worker processes: their answers, their end, and the order of turns."""

import dataclasses
import json
import os
import signal
import types

import pytest
import workers

from electra_tf.util.errors import UserError

_SCRIPT = """
import json, sys
print("a library's greeting")
print(json.dumps({"words": sys.argv[1:]}), flush=True)
for line in sys.stdin:
    print(json.dumps({"found": json.loads(line)}), flush=True)
"""


@dataclasses.dataclass
class _Setting:
    size: int = 3


@pytest.fixture
def worker(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(_SCRIPT)
    worker = workers.Worker(script, ["job", "peer"], _Setting())
    yield worker
    worker.close()


def test_a_worker_gets_its_words_and_answers_requests(worker):
    *names, setting = worker.versions["words"]
    assert names == ["job", "peer"] and json.loads(setting) == {"size": 3}
    for request in (5, "figures", {"count": 2}):
        assert worker.ask(request) == {"found": request}


def test_a_worker_that_was_killed_is_reported_as_such(worker):
    os.kill(worker.pid, signal.SIGKILL)
    worker._process.wait()
    with pytest.raises(UserError, match=r"Received: nothing from .*'job'"):
        worker.ask(1)


def test_every_other_turn_is_in_reverse_and_guarded_for_its_process():
    order, roots = [], []

    class Quiet:
        def take(self, measure, root):
            roots.append(root)
            return measure()

    def ask(name):
        order.append(name)
        return len(order)

    names = {
        "b": types.SimpleNamespace(pid=2),
        "a": types.SimpleNamespace(pid=1),
    }
    found = workers.take_turns(Quiet(), names, 3, ask)
    assert "".join(order) == "abbaab" and roots == [1, 2, 2, 1, 1, 2]
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}
