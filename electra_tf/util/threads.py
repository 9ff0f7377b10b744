"""Threads of the operations of a process, on a CPU.

TensorFlow runs as many operations at once as there are cores, and lets each
use as many threads. Two small operations at a time then wait for one another's
threads, longer than their second thread saves; with half of the cores for each
they do not. Figures: docs/benchmarks/step.md.
"""

import os

from electra_tf.util import machine

_VARIABLE = "TF_NUM_INTRAOP_THREADS"
_SMALL = 2**18
"""Numbers in the hidden states of a layer up to which half of the cores are
faster; of twice as many they are on narrow networks alone."""


def limit_for(num_activations: int) -> str:
    """Gives each operation half of the cores, if it has little to compute.

    To be called before TensorFlow computes anything. What the environment says
    already counts.

    Args:
      num_activations: numbers in the hidden states of a layer, of all tokens
        that are computed together.

    Returns:
      A line for the log.
    """
    if num_activations <= _SMALL:
        half = max(1, machine.num_cores() // 2)
        os.environ.setdefault(_VARIABLE, str(half))
    threads = os.environ.get(_VARIABLE, "all")
    return f"Threads of an operation: {threads} ({_VARIABLE})."
