"""The basic layers: an affine map and layer normalization."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from electra_tf.model import tensor_ops

Policy = str | dict | keras.DTypePolicy | None
"""A layer's `dtype` as Keras takes it; None for the global policy."""

Shape = tuple[int | None, ...]
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
"""Precision in a configuration -> policy of its encoders."""


@contextlib.contextmanager
def dtype_scope(policy: str | keras.DTypePolicy) -> Iterator[None]:
    """Sets the default policy of layers that are made inside the block."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


class Linear(keras.layers.Layer):
    """Computes x @ kernel + bias on the last axis, as one matrix product."""

    def __init__(
        self,
        units: int,
        initializer_range: float | None,
        *,
        name: str,
        dtype: Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.units = units
        self.initializer_range = initializer_range

    def build(self, input_shape: Shape) -> None:
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self.units),
            initializer=initializer(self.initializer_range),
            name="kernel",
            autocast=False,
        )
        self.bias = self.add_weight(
            (self.units,), "zeros", name="bias", autocast=False
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tensor_ops.linear(x, self.kernel, self.bias, self.compute_dtype)

    def product(self, x: tf.Tensor) -> tf.Tensor:
        """Computes x @ kernel in the compute dtype, without the bias."""
        return tensor_ops.product(x, self.kernel, self.compute_dtype)


class LayerNorm(keras.layers.Layer):
    """Computes (x - mean) / sqrt(var + epsilon) * gamma + beta."""

    epsilon = 1e-12

    def __init__(self, name: str = "LayerNorm") -> None:
        super().__init__(name=name, dtype="float32")

    def build(self, input_shape: Shape) -> None:
        width = input_shape[-1:]
        self.gamma = self.add_weight(
            shape=width, initializer="ones", name="gamma", autocast=False
        )
        self.beta = self.add_weight(
            shape=width, initializer="zeros", name="beta", autocast=False
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tensor_ops.layer_norm(
            x, self.gamma, self.beta, epsilon=self.epsilon
        )


def initializer(
    initializer_range: float | None,
) -> keras.initializers.Initializer:
    """Returns the original's initializer of a kernel or table."""
    if initializer_range is None:
        return keras.initializers.GlorotUniform()
    return keras.initializers.TruncatedNormal(stddev=initializer_range)
