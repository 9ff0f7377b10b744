"""Values of texts, or of pairs of them."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from electra_tf.finetune.classification.classification_heads import (
    RegressionHead,
)
from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.keras_models.base import Batch
from electra_tf.finetune.keras_models.classifier import TextModel
from electra_tf.finetune.keras_models.trained import Trained
from electra_tf.util.errors import UserError


@keras.saving.register_keras_serializable("electra_tf")
class ElectraRegressor(TextModel):
    """Finds a value for each text, or pair of texts.

    Texts and pairs are those of `ElectraClassifier`.

    Example:
      model = electra_tf.ElectraRegressor.from_checkpoint(
          path, value_range=(1, 5)
      )
      model.compile(model.make_optimizer())
      model.fit(["a fine film", "a dull one"], [4.5, 2], epochs=3)
      model.predict(["what a film"])  # [[3.9]]

    The loss that `compile` takes by default is the squared error, the metric
    the absolute error, "mae".

    Args:
      encoder_config: see `ElectraModel`.
      vocabulary: likewise.
      value_range: what outputs 0 and 1 of the head stand for. One that spans
        the values makes learning start near; of values beyond it warns.
      head: "electra" or "hugging_face", see `RegressionHead`.
      **options: of `ElectraModel`.

    Call arguments:
      inputs: see `ElectraClassifier`.
      training: whether dropout is on.

    Returns:
      float32 [B, 1], in the units of `value_range`.
    """

    KIND: ClassVar[str] = "regression"
    TARGETS: ClassVar[tuple[FeatureSpec, ...]] = (
        FeatureSpec("targets", is_float=True),
    )

    def __init__(
        self,
        encoder_config: Any,  # noqa: ANN401
        vocabulary: Any,  # noqa: ANN401
        value_range: tuple[float, float] = (0.0, 1.0),
        *,
        head: str = "electra",
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(encoder_config, vocabulary, **options)
        low, high = value_range
        if not low < high:
            raise UserError(
                "`value_range` must be the least and the greatest value. "
                f"Received: value_range={value_range}."
            )
        self.value_range = (float(low), float(high))
        self.head = self._built(lambda: RegressionHead("regressor", head))

    @classmethod
    def options_of(cls, trained: Trained) -> dict[str, Any] | None:
        if not trained.head or trained.num_outputs != 1:
            return None
        value_range = trained.known.get("value_range", (0.0, 1.0))
        return {"value_range": tuple(value_range), "head": trained.head}

    def compile_defaults(self) -> dict[str, Any]:
        return {
            "loss": keras.losses.MeanSquaredError(),
            "metrics": ["mae"],
        }

    def _targets(self, y: Sequence, count: int) -> list[float]:
        targets = super()._targets(y, count)
        low, high = self.value_range
        least, greatest = min(targets), max(targets)
        if least < low or greatest > high:
            warnings.warn(
                f"Values should lie in value_range={self.value_range}, where "
                f"outputs start. Received: {least:g} to {greatest:g}. They "
                "are learned, but sooner by a model with "
                f"value_range=({min(low, least):g}, {max(high, greatest):g}).",
                stacklevel=2,
            )
        return targets

    def target(self, value: float, place: int) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not abs(number) < float("inf"):
            raise UserError(
                f"A value must be a number. Received: {value!r} at {place}."
            )
        return number

    def call(self, inputs: Batch, training: bool = False) -> tf.Tensor:
        states, keys = self.states(inputs, training)
        # Keras takes the mean of the last axis before it weighs samples.
        outputs = self.head(states, {}, keys)["predictions"][:, tf.newaxis]
        low, high = self.value_range
        return low + (high - low) * tf.cast(outputs, tf.float32)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "value_range": list(self.value_range),
            "head": self.head.kind,
        }
