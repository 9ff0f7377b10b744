"""Losses and metrics of Keras' that take logits for probabilities."""

import inspect
from typing import Any

import keras

from electra_tf.util.errors import UserError, shown


def check(loss: Any, metrics: Any) -> None:  # noqa: ANN401 (as Keras has them)
    """Refuses what is computed from probabilities: outputs are logits.

    Args:
      loss: of `keras.Model.compile`, names, objects or structures of them.
      metrics: likewise, the weighted ones with them.

    Raises:
      UserError: naming it, and what to give instead.
    """
    for argument, values, module in (
        ("loss", loss, keras.losses),
        ("metrics", metrics, keras.metrics),
    ):
        for value in keras.tree.flatten(values):
            if _takes_probabilities(_found(value, module)):
                raise UserError(
                    f"`{argument}` must be computed from logits, which the "
                    f"model's outputs are. Received: {shown(value)}. Leave "
                    f"{argument} out for the class's own, or give an object "
                    f"of {module.__name__} made with from_logits=True."
                )


def _found(value: Any, module: Any) -> Any:  # noqa: ANN401
    """Returns what Keras takes a name for; anything else as it is."""
    try:
        return module.get(value)
    except (TypeError, ValueError):  # Keras says what it does not know
        return value


def _takes_probabilities(value: Any) -> bool:  # noqa: ANN401
    if hasattr(value, "get_config"):
        return value.get_config().get("from_logits") is False
    if not inspect.isfunction(value):
        return False
    parameter = inspect.signature(value).parameters.get("from_logits")
    return parameter is not None and parameter.default is False
