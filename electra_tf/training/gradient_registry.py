"""Gradients that TensorFlow would keep for ever.

`tf.custom_gradient` enters the gradient of each call in a graph into a table of
the process, under a name of its own, and nothing ever takes it out. It holds
the graph, and the graph the variables: of models that are made one after the
other none would be freed.
"""

import contextlib
import gc
from collections.abc import Iterator

from tensorflow.python.framework import ops

_PREFIX = "CustomGradient-"


def custom_gradients() -> set[str]:
    """Returns the names of the gradients that are in the table."""
    names = ops.gradient_registry.list()
    return {name for name in names if name.startswith(_PREFIX)}


@contextlib.contextmanager
def freed_graphs() -> Iterator[None]:
    """Frees, in the end, the graphs and models of the block that nobody holds.

    Functions that were traced in the block can be called after it, but no
    gradient of theirs can be traced any more.
    """
    before = custom_gradients()
    try:
        yield
    finally:
        for name in custom_gradients() - before:
            # The table has no method for it.
            del ops.gradient_registry._registry[name]
        gc.collect()  # graphs are cycles, and few of them hold much memory
