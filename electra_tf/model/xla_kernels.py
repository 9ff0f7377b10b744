"""The operations between two matrix products, compiled by XLA for a CPU.

A compiled chain of operations passes over memory once or twice, not once for
each; XLA's matrix products on CPUs are slow, so each chain is a kernel of its
own. It is compiled once for each shape, in a tenth of a second: kernels are
used only for large tensors of static shape.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

MIN_SIZE = 2**15
"""Elements of a tensor from which compiling pays off."""

VECTOR = tf.TensorSpec([None], tf.float32)
SCALAR = tf.TensorSpec([], tf.float32)
_COMPILED = (tf.float32, tf.bfloat16)


def is_worth_compiling(x: tf.Tensor) -> bool:
    """Returns whether functions of `x` should run as kernels."""
    is_known = x.shape.is_fully_defined() and x.dtype in _COMPILED
    return is_known and x.shape.num_elements() >= MIN_SIZE


def compiled(formula: Callable) -> Callable:
    """Makes a function that runs as a kernel where that is faster."""
    kernel = tf.function(formula, jit_compile=True, autograph=False)

    @functools.wraps(formula)
    def call(
        x: tf.Tensor,
        *tensors: tf.Tensor,
        **others: Any,  # noqa: ANN401 (what the formula takes)
    ) -> Any:  # noqa: ANN401
        if not is_worth_compiling(x):
            return formula(x, *tensors, **others)
        x, tensors, others = _captured((x, tensors, others))
        return kernel(x, *tensors, **others)

    return call


def fused(formula: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Makes a differentiable function that runs as a kernel where faster."""
    forward = tf.function(formula, jit_compile=True, autograph=False)

    @tf.function(jit_compile=True, autograph=False)
    def backward(
        tensors: tuple[tf.Tensor, ...],
        dy: tf.Tensor,
        **others: Any,  # noqa: ANN401 (what the formula takes)
    ) -> tuple[tf.Tensor, ...]:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            y = formula(*tensors, **others)
        return tape.gradient(y, tensors, dy)

    @functools.wraps(formula)
    def call(
        *tensors: tf.Tensor,
        **others: Any,  # noqa: ANN401
    ) -> tf.Tensor:
        tensors = tuple(tf.convert_to_tensor(x) for x in tensors)
        if not is_worth_compiling(tensors[0]):
            return formula(*tensors, **others)
        tensors, others = _captured((tensors, others))

        @tf.custom_gradient
        def run(*tensors: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, ...]:
                arguments, dy, named = _captured((tensors, dy, others))
                return backward(arguments, dy, **named)

            return forward(*tensors, **others), gradient

        return run(*tensors)

    return call


def _captured(arguments: Any) -> Any:  # noqa: ANN401
    """Captures tensors of outer graphs before a kernel is called."""
    return tf.nest.map_structure(
        lambda x: tf.identity(x) if tf.is_tensor(x) else x, arguments
    )
