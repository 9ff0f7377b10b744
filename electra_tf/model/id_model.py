"""A Keras model of token ids: its inputs, its export, its frozen layers.

Letters in shapes: B rows, L tokens in a row.
"""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from electra_tf.model.text_reader import Ids
from electra_tf.util.errors import UserError


class IdModel(keras.Model):
    """A Keras model whose inputs are token ids.

    Shapes: SERVED [B, L].
    """

    SERVED: ClassVar[tuple[str, ...]] = (
        "input_ids",
        "input_mask",
        "segment_ids",
    )

    def __init__(
        self,
        *,
        dtype: Any = None,  # noqa: ANN401 (as Keras has it)
        name: str | None = None,
        **options: Any,  # noqa: ANN401 (likewise)
    ) -> None:
        super().__init__(dtype=dtype, name=name, **options)
        if self.dtype_policy.variable_dtype != "float32":
            raise UserError(
                f"Weights are float32, not {self.dtype_policy.name}."
            )

    def export(
        self,
        filepath: str,
        *arguments: Any,  # noqa: ANN401 (those of Keras)
        input_signature: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Writes a SavedModel that runs without electra_tf."""
        ids = {
            name: keras.InputSpec(dtype="int32", shape=(None, None), name=name)
            for name in self.SERVED
        }
        signature = input_signature or [ids]
        super().export(
            filepath, *arguments, input_signature=signature, **options
        )

    def frozen_layers(self) -> list[str]:
        """Returns the paths of the layers that are frozen, "" for the model."""
        layers = self._flatten_layers()
        return [self._path_of(x) for x in layers if not x.trainable]

    def freeze_layers(self, paths: Collection[str]) -> None:
        """Freezes layers, and trains all others."""
        # A layer comes before its parts, which follow it until they are set.
        for layer in self._flatten_layers():
            layer.trainable = self._path_of(layer) not in paths

    def _path_of(self, layer: keras.layers.Layer) -> str:
        return "" if layer is self else layer.path


def complete_ids(
    inputs: Mapping[str, tf.Tensor],
    *,
    optional: Collection[str] = (),
    longest: int | None = None,
) -> Ids:
    """Adds missing inputs to a batch of ids, and casts all to int32.

    Shapes: inputs [B, L].
    """
    known = {*IdModel.SERVED, *optional}
    if not {"input_ids"} <= inputs.keys() <= known:
        raise ValueError(f"Ids are named {known}, not {[*inputs]}.")
    ids = {name: tf.cast(x, tf.int32) for name, x in inputs.items()}
    length = ids["input_ids"].shape[-1]
    if None not in (length, longest) and length > longest:  # GPUs read zeros
        raise ValueError(
            f"Rows of {length} ids exceed the {longest} position embeddings."
        )
    if "input_mask" not in ids:
        ids["input_mask"] = tf.cast(ids["input_ids"] > 0, tf.int32)
    ids.setdefault("segment_ids", tf.zeros_like(ids["input_ids"]))
    return ids
