"""Frees custom gradients that TensorFlow would keep for ever.

For each call in a graph, `tf.custom_gradient` registers the gradient under a
unique name in a table of the process, and never removes it. The gradient
references the graph, and the graph the variables: if models are made one after
the other, none would ever be freed.
"""

import contextlib
import gc
from collections.abc import Iterator

from tensorflow.python.framework import ops

_PREFIX = "CustomGradient-"


def custom_gradients() -> set[str]:
    """Returns the names of the custom gradients in the table."""
    names = ops.gradient_registry.list()
    return {name for name in names if name.startswith(_PREFIX)}


@contextlib.contextmanager
def freed_graphs() -> Iterator[None]:
    """Frees unreferenced graphs and models of the block when it ends."""
    before = custom_gradients()
    try:
        yield
    finally:
        for name in custom_gradients() - before:
            # The table has no method to remove an entry.
            del ops.gradient_registry._registry[name]
        gc.collect()  # graphs are cycles, and few of them hold much memory
