"""A peer of `peer_step.py`: a process that trains on request.

    python tools/benchmarks/peer_worker.py JOB PEER '{"precision": ..., ...}'

JOB is `pretrain` or `finetune`, PEER `electra_tf` or `torch`; the JSON has the
fields of `Setting`. A worker prints the versions of its libraries as a line of
JSON. Then it answers each line of standard input with a line of JSON: for a
number, it makes that many updates and reports the time of one; for the text
"figures", it measures further figures of an update.

It imports only those modules of electra_tf that need no package, so that the
environment of a peer need not hold ours: PYTHONPATH names the checkout.
"""

import importlib
import time

import machine
from peers import Peer, Setting, answer_requests, worker_arguments

from electra_tf.util import memory

JOBS = {"pretrain": "pretrain_peers", "finetune": "finetune_peers"}


def main(job: str, name: str, setting: Setting) -> None:
    """Makes a peer, and answers requests until the input ends."""
    memory.keep()  # as our commands do; the same for every peer
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
    names = ("electra_tf", "torch")
    main(*worker_arguments(__doc__, Setting, job=JOBS, peer=names))
