"""Intra-op threads of TensorFlow on a CPU.

TensorFlow runs as many operations at once as there are cores, and lets each of
them use as many threads. Two small operations that run together then wait for
each other's threads longer than the second thread saves; limited to half of the
cores each, they do not. Figures: docs/benchmarks/step.md.
"""

import os

from electra_tf.util import machine

_VARIABLE = "TF_NUM_INTRAOP_THREADS"
_MAX_SMALL_ACTIVATIONS = 2**18
"""Activations of a layer up to which half of the cores are faster; at twice as
many this holds for narrow networks only."""


def limit_intra_op_threads(num_activations: int) -> str:
    """Limits each operation to half of the cores where a step is small."""
    if num_activations <= _MAX_SMALL_ACTIVATIONS:
        half = max(1, machine.num_cores() // 2)
        os.environ.setdefault(_VARIABLE, str(half))
    threads = os.environ.get(_VARIABLE, "all")
    return f"Threads per operation: {threads} ({_VARIABLE})."
