"""Keras' global dtype policy, set temporarily."""

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def scope(policy: str | keras.DTypePolicy) -> Iterator[None]:
    """Sets the default policy of layers that are made inside the block.

    Args:
      policy: "float32", "mixed_bfloat16" or "mixed_float16", or an object.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
