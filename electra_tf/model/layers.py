"""The basic layers: an affine map and layer normalization."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
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


class ConfiguredLayer(keras.layers.Layer):
    """A layer that stores each argument of its class as an attribute."""

    SHARED: ClassVar[tuple[str, ...]] = ()
    """Arguments that are another network's layers; not in the configuration."""

    def get_config(self) -> dict[str, Any]:
        _, *names = inspect.signature(type(self).__init__).parameters
        config = {n: getattr(self, n) for n in names if n not in self.SHARED}
        if "dtype" in config:
            config["dtype"] = keras.dtype_policies.serialize(self.dtype_policy)
        if isinstance(config.get("config"), BertConfig):
            config["config"] = self.config.to_dict()
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        if "config" in config:
            config = config | {"config": BertConfig.from_dict(config["config"])}
        return cls(**config)


@keras.saving.register_keras_serializable("electra_tf")
class Linear(ConfiguredLayer):
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
            shape=(self.units,),
            initializer="zeros",
            name="bias",
            autocast=False,
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tensor_ops.linear(x, self.kernel, self.bias, self.compute_dtype)

    def product(self, x: tf.Tensor) -> tf.Tensor:
        """Computes x @ kernel in the compute dtype, without the bias."""
        return tensor_ops.product(x, self.kernel, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)


@keras.saving.register_keras_serializable("electra_tf")
class LayerNorm(ConfiguredLayer):
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
