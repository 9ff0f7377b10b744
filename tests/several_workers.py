"""Workers simulated by threads of one process, to test their agreement."""

import threading
from concurrent import futures

import numpy as np

from electra_tf.util import distribution

_WORKERS = distribution.Workers


class Meeting:
    """Gathers values among the threads of `run`, in place of collectives."""

    def __init__(self, count):
        self.count = count
        self.thread_local = threading.local()
        self.barrier = threading.Barrier(count, timeout=30)
        self.rows = [None] * count

    def gather(self, numbers):
        self.rows[self.thread_local.number] = numbers
        self.barrier.wait()
        rows = np.float32(self.rows)
        self.barrier.wait()
        return rows

    def workers(self, strategy):
        """Stands in for `distribution.Workers`."""
        fake = _WORKERS(strategy)
        fake.number, fake.count = self.thread_local.number, self.count
        fake.gather = self.gather
        return fake

    def run(self, work):
        """Runs `work(number)` in each thread; returns results or exceptions."""

        def run_one(number):
            self.thread_local.number = number
            return work(number)

        with futures.ThreadPoolExecutor(self.count) as pool:
            pending = [pool.submit(run_one, i) for i in range(self.count)]
        return [future.exception() or future.result() for future in pending]
