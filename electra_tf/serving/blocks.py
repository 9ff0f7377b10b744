"""Loops over blocks of rows inside a graph, so that memory stays flat."""

from collections.abc import Callable, Sequence

import tensorflow as tf

BLOCK_SIZE = 32


def in_blocks(
    count: tf.Tensor,
    compute: Callable[[slice], Sequence[tf.Tensor]],
    specs: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    """Computes tensors of all rows, `BLOCK_SIZE` rows at a time."""

    def step(start: tf.Tensor, *found: tf.Tensor) -> tuple:
        part = compute(slice(start, start + BLOCK_SIZE))
        joined = [tf.concat(x, 0) for x in zip(found, part, strict=True)]
        return start + BLOCK_SIZE, *joined

    nothing = [tf.zeros([0, *spec.shape[1:]], spec.dtype) for spec in specs]
    _, *found = tf.while_loop(
        lambda start, *_: start < count,
        step,
        [tf.constant(0), *nothing],
        shape_invariants=[tf.TensorShape([]), *(x.shape for x in specs)],
        parallel_iterations=1,
    )
    return found
