"""A peer of `peer_step.py` in a process of its own, that trains on request.

    python tools/benchmarks/peer_worker.py JOB PEER '{"precision": ..., ...}'

JOB is `pretrain` or `finetune`, PEER `electra_tf` or `torch`; the JSON has the
fields of `Setting`. A worker says what it is in a line of JSON. Then it answers
each line of its standard input with one: to a number it makes so many updates,
and says what one of them took; to the text "figures", what else it knows of an
update.

Of electra_tf it imports only what needs no package, so that the environment of
a peer need not hold ours: PYTHONPATH names the checkout.
"""

import argparse
import importlib
import json
import time

import machine
from peers import Peer, Setting, answer_requests

from electra_tf.util import memory

JOBS = {"pretrain": "pretrain_peers", "finetune": "finetune_peers"}


def main(job: str, name: str, setting: Setting) -> None:
    """Makes a peer, and updates it on request until the input ends."""
    memory.keep()  # as our commands do, for each peer alike
    peer = getattr(importlib.import_module(JOBS[job]), name)(setting)

    def answer(request: int | str) -> dict[str, float]:
        if request == "figures":
            return peer.figures()
        return _timed(peer, request)

    answer_requests(peer.versions, answer)


def _timed(peer: Peer, count: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    loss = peer.update(count)
    return {
        "cpu": (time.process_time() - cpu) / count,
        "wall": (time.perf_counter() - wall) / count,
        "loss": loss,
        "peak_memory_gb": machine.peak_memory_gb(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("peer", choices=["electra_tf", "torch"])
    parser.add_argument("setting", type=json.loads)
    arguments = parser.parse_args()
    main(arguments.job, arguments.peer, Setting(**arguments.setting))
