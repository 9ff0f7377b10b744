"""The output layers of a task, on the encoder."""

import abc
from collections.abc import Mapping
from typing import Self

import keras
import tensorflow as tf

from electra_tf.model import layers
from electra_tf.model.modeling import EncoderOutput

KINDS = ("electra", "hugging_face")


def require_kind(kind: str) -> None:
    """Refuses a kind of head that is none of `KINDS`."""
    if kind not in KINDS:
        raise ValueError(f"head={kind!r} is none of {KINDS}.")


class Head(layers.ConfiguredLayer, abc.ABC):
    """Output layers on the encoder; its name is the task's.

    Shapes: returns [B, ...].
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, dtype="float32")

    @abc.abstractmethod
    def call(
        self,
        states: EncoderOutput,
        features: Mapping[str, tf.Tensor],
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes the outputs; see the class."""

    def build_for(self, hidden_size: int) -> Self:
        """Creates the weights, under the original's names."""
        with keras.name_scope("task_specific"):
            self.build((None, hidden_size))
        return self

    @abc.abstractmethod
    def losses(
        self,
        outputs: Mapping[str, tf.Tensor],
        features: Mapping[str, tf.Tensor],
    ) -> tf.Tensor:
        """Computes the loss of each row.

        Shapes: outputs [B, ...], features [B, ...]; returns [B].
        """
