"""Keras' global dtype policy, set temporarily."""

import contextlib
from collections.abc import Iterator

import keras

from electra_tf.util.errors import UserError


def require_float32_weights(policy: keras.DTypePolicy) -> None:
    """Refuses policies whose weights are not float32."""
    if policy.variable_dtype != "float32":
        raise UserError(
            "`dtype` must be float32, mixed_bfloat16 or mixed_float16: weights "
            f"are float32. Received: dtype={policy.name!r}. Set mixed_bfloat16 "
            "to compute in bfloat16."
        )


@contextlib.contextmanager
def scope(policy: str | keras.DTypePolicy) -> Iterator[None]:
    """Sets the default policy of layers that are made inside the block."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
