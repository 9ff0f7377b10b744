"""Activation recomputation: a layer keeps its inputs and nothing else.

The backward pass computes the layer again, for about a third more time, and
then its gradient. All that it depends on beside its weights is an argument,
random keys included: the second computation gives the same bits as the first.

Source: Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost".
"""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf


def recompute(
    function: Callable[..., tf.Tensor],
    variables: Sequence[keras.Variable],
    x: tf.Tensor,
    *constants: tf.Tensor,
) -> tf.Tensor:
    """Calls a function, which the backward pass calls again.

    Differs: `tf.recompute_grad` searches for variables, and takes the step
    that random keys are made of for a weight; it is told apart from the first
    computation by a condition that XLA may drop.

    Args:
      function: of x, the constants and the variables alone.
      variables: all that it reads.
      x: float32 [B, L, H].
      *constants: further arguments, through which no gradient flows.

    Returns:
      float32 [B, L, H].
    """
    count = len(constants)

    def call(x: tf.Tensor, rest: Sequence[tf.Tensor]) -> tf.Tensor:
        values = list(zip(variables, rest[count:], strict=True))
        with keras.StatelessScope(values):
            return function(x, *rest[:count])

    @tf.custom_gradient
    def run(x: tf.Tensor, *rest: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> list[tf.Tensor | None]:
            again = [_after(dy, tensor) for tensor in (x, *rest[:count])]
            weights = rest[count:]
            with tf.GradientTape() as tape:
                tape.watch([again[0], *weights])
                y = call(again[0], [*again[1:], *weights])
            dx, *dweights = tape.gradient(y, [again[0], *weights], dy)
            return [dx, *[None] * count, *dweights]

        return call(x, rest), gradient

    y = run(x, *constants, *map(tf.convert_to_tensor, variables))
    y.set_shape(x.shape)
    return y


def _after(first: tf.Tensor, then: tf.Tensor) -> tf.Tensor:
    """Returns a tensor as it is, but computed after another one.

    Without a dependency a compiler takes the second computation for the first,
    and all is kept. XLA drops control dependencies; but that a float equals
    itself no compiler may take for granted. A gradient that begins with NaN
    makes all of them NaN.
    """
    number = tf.reshape(first, [-1])[0]
    zero = tf.where(number == number, 0.0, number)
    return then + tf.cast(zero, then.dtype)
