"""Activation recomputation: a layer keeps only its inputs.

The backward pass computes the layer again, for about a third more time, and
then its gradient. Everything that the layer depends on besides its weights is
an argument, including random keys, so that the second computation gives the
same bits as the first.

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
    """Calls a function now, and again in the backward pass.

    Differs: `tf.recompute_grad` searches for variables and takes the step from
    which random keys are made for a weight; it separates the two computations
    by a condition that XLA may drop.

    Shapes: x [B, L, H]; returns [B, L, H].
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
    """Returns `then` unchanged, but computed after `first`."""
    # A sum, as a replica may have no row of the last batch.
    number = tf.reduce_sum(tf.reshape(first, [-1])[:1])
    zero = tf.where(number == number, 0.0, number)
    return then + tf.cast(zero, then.dtype)
