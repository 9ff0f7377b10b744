"""Workers that are threads of one process, to test what they agree on."""

import threading
from concurrent import futures

import numpy as np

from electra_tf.util import distribution

_SECONDS = 30
_WORKERS = distribution.Workers


class Meeting:
    """Where the threads of `run` meet, in the place of collectives."""

    def __init__(self, count):
        self.count = count
        self.mine = threading.local()
        self.barrier = threading.Barrier(count, timeout=_SECONDS)
        self.rows = [None] * count

    def gather(self, numbers):
        self.rows[self.mine.number] = numbers
        self.barrier.wait()
        rows = np.float32(self.rows)
        self.barrier.wait()
        return rows

    def workers(self, strategy):
        """Stands in for `distribution.Workers`."""
        made = _WORKERS(strategy)
        made.number, made.count = self.mine.number, self.count
        made.gather = self.gather
        return made

    def run(self, work):
        """Runs `work(number)` in each; returns results or exceptions."""

        def one(number):
            self.mine.number = number
            return work(number)

        with futures.ThreadPoolExecutor(self.count) as pool:
            waiting = [pool.submit(one, i) for i in range(self.count)]
        return [future.exception() or future.result() for future in waiting]
