"""Checks of `compile` and `fit`: losses of logits, length of the schedule."""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from electra_tf.model.schedules import WarmupPolynomialDecay
from electra_tf.util.errors import ElectraWarning, UserError, shorten_repr

_ONE_HOT_LOSSES = (
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
)


@keras.saving.register_keras_serializable("electra_tf")
class FittedDecay(WarmupPolynomialDecay):
    """A `WarmupPolynomialDecay` that is as long as the first `fit`."""

    def __init__(
        self,
        learning_rate: float,
        warmup_proportion: float,
        num_train_steps: int | None = None,
    ) -> None:
        super().__init__(learning_rate, 0, 0)
        self.warmup_proportion = warmup_proportion
        self.set_length(num_train_steps)

    def set_length(self, num_train_steps: int | None) -> None:
        """Sets the length of the schedule."""
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = (num_train_steps or 0) * self.warmup_proportion

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        if self.num_train_steps is None:
            raise UserError(
                "`num_train_steps` must be given unless `fit` of an electra_tf "
                "model counts the updates. Received: none. "
                "Give make_optimizer(num_train_steps=epochs * batches)."
            )
        return super().__call__(step)

    def get_config(self) -> dict[str, Any]:
        names = ("learning_rate", "warmup_proportion", "num_train_steps")
        return {name: getattr(self, name) for name in names}


def fit_schedule(
    optimizer: keras.optimizers.Optimizer,
    data: tf.data.Dataset,
    arguments: Mapping[str, Any],
) -> None:
    """Sets the length of a `FittedDecay` to that of the training."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    schedule = getattr(optimizer, "_learning_rate", None)
    if not isinstance(schedule, WarmupPolynomialDecay):
        return
    steps = arguments.get("steps_per_epoch") or int(data.cardinality())
    epochs = arguments.get("epochs", 1) - arguments.get("initial_epoch", 0)
    last = int(optimizer.iterations.numpy()) + epochs * steps
    if schedule.num_train_steps is None:
        if steps <= 0:
            raise UserError(
                "The number of batches must be known for a schedule as long "
                "as `fit`. Received: a dataset of unknown size. Give "
                "make_optimizer(num_train_steps=epochs * batches), or "
                "data.apply(tf.data.experimental.assert_cardinality(batches))."
            )
        if epochs > 0:
            schedule.set_length(last)
    if epochs * steps > 0 and (warning := _length_warning(schedule, last)):
        warnings.warn(warning, ElectraWarning, stacklevel=3)


def _length_warning(schedule: WarmupPolynomialDecay, last: int) -> str:
    """Returns a warning if the rate is 0 too soon or only rises, else ""."""
    end, warmup = schedule.num_train_steps, schedule.num_warmup_steps
    way_out = (
        "compile with model.make_optimizer(), whose schedule is as long as "
        "`fit`, or give num_train_steps to it"
    )
    if last > end:
        return (
            f"`fit` runs to update {last}, but the learning rate is 0 from "
            f"update {end} on, where its schedule ends. To learn until the "
            f"end, {way_out}."
        )
    if last - 1 < warmup:
        return (
            f"`fit` ends at update {last}, within the warm-up of {warmup:g}: "
            "the learning rate never reaches its peak. Train for longer"
            f"{f', or {way_out}' * (last < end)}."
        )
    return ""


def mean_over_batch(losses: tf.Tensor) -> tf.Tensor:
    """Returns this replica's share of the mean over the global batch.

    Shapes: losses [B].
    """
    num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
    num_rows = tf.cast(tf.size(losses), losses.dtype)  # may be 0
    mean = tf.math.divide_no_nan(tf.reduce_sum(losses), num_rows)
    return mean / num_replicas


def check_takes_numbers(loss: Any) -> None:  # noqa: ANN401 (as in Keras)
    """Refuses losses of one-hot targets: sequences become numbers of
    classes."""
    for value in keras.tree.flatten(loss):
        if type(value) in _ONE_HOT_LOSSES:  # a subclass may do otherwise
            raise UserError(
                "`loss` must take numbers of classes, which sequences of "
                f"labels become. Received: {type(value).__name__}. Compile "
                "with a SparseCategoricalCrossentropy of logits, or give a "
                "tf.data.Dataset of (texts, tf.one_hot(labels, num_classes))."
            )


def check_left_out(loss: Any, metrics: Any, name: str) -> None:  # noqa: ANN401
    """Refuses a loss and metrics of a model whose head computes them."""
    if loss is not None:
        raise UserError(
            "`loss` must be left out: the head computes it. Received: "
            f"loss={loss!r}. For another loss, override compute_loss in a "
            f"subclass of {name}."
        )
    if metrics:
        raise UserError(
            "`metrics` must be left out: answers are scored as texts. "
            f"Received: {metrics!r}. Call `score` after `fit`."
        )


def check_logits(loss: Any, metrics: Any) -> None:  # noqa: ANN401 (as in Keras)
    """Refuses losses and metrics of probabilities: the outputs are logits."""
    for argument, values, module in (
        ("loss", loss, keras.losses),
        ("metrics", metrics, keras.metrics),
    ):
        for value in keras.tree.flatten(values):
            if _takes_probabilities(_by_name(value, module)):
                raise UserError(
                    f"`{argument}` must be computed from logits, which the "
                    f"model's outputs are. Received: {shorten_repr(value)}. "
                    f"Leave {argument} out for the class's own, or give an "
                    f"object of {module.__name__} made with from_logits=True, "
                    "if it has that argument."
                )


def _by_name(value: Any, module: Any) -> Any:  # noqa: ANN401
    """Returns the object that Keras has for a name; other values unchanged."""
    try:
        return module.get(value)
    except (TypeError, ValueError):  # Keras reports unknown names
        return value


def _takes_probabilities(value: Any) -> bool:  # noqa: ANN401
    if hasattr(value, "get_config"):
        config = value.get_config()
        if "from_logits" in config:
            return config["from_logits"] is False
        # Keras' counts, as Precision, compare with thresholds from 0 to 1.
        is_of_keras = type(value).__module__.startswith("keras.")
        return is_of_keras and any("threshold" in name for name in config)
    if not inspect.isfunction(value):
        return False
    parameter = inspect.signature(value).parameters.get("from_logits")
    return parameter is not None and parameter.default is False
