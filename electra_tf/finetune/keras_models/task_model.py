"""Encoders with a head: Keras models that fit and predict raw data."""

import abc
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune import finetuned
from electra_tf.finetune.keras_models.base import (
    Batch,
    ElectraModel,
    FittedDecay,
)
from electra_tf.finetune.keras_models.inputs import (
    SAMPLE_WEIGHT,
    Labels,
    RowBatches,
    add_places,
    first_rows,
    weigh_gradient,
)
from electra_tf.finetune.preprocessing import TOKENS, FeatureSpec, Row
from electra_tf.util.errors import ElectraWarning, UserError

BATCH_SIZE = 32

Outputs = tf.Tensor | dict[str, tf.Tensor]


class TaskModel(ElectraModel, abc.ABC):
    """An encoder with a head, for raw data.

    `fit`, `evaluate` and `predict` take the arguments of Keras' own. Data are
    Python sequences, as the class describes, or a `tf.data.Dataset`. Sequences
    are tokenized once, before the first epoch. Training rows are padded to the
    longest of all, rows to evaluate or to predict to the longest of their
    batch.

    Attributes:
      KIND: kind of the task, as `Task.KIND`.
      TARGET: column of the targets, such as a classifier's class number.
      WEIGHT: column of the weight of a row, or of each word of it.
      IS_BY_TOKEN: whether outputs are as long as rows.
      classes: of a classifier or tagger; None for other models.
    """

    KIND: ClassVar[str]
    TARGET: ClassVar[FeatureSpec | None] = None
    WEIGHT: ClassVar[FeatureSpec] = SAMPLE_WEIGHT
    IS_BY_TOKEN: ClassVar[bool] = False

    classes: Labels | None = None

    @abc.abstractmethod
    def rows(self, x: Any, y: Any = None) -> Iterator[Row]:
        """Yields rows of tokens, columns and, if `y` is given, targets.

        Each has "eid", the number of its input; inputs are in order.
        """

    def outputs_of(self, head_outputs: Mapping[str, tf.Tensor]) -> Outputs:
        """Returns the model's outputs, float32, from those of its head."""
        return head_outputs["logits"]

    @abc.abstractmethod
    def compile_defaults(self) -> dict[str, Any]:
        """Returns the default loss and metrics of `compile`.

        A loss of None is that of the head, which cannot be replaced.
        """

    @classmethod
    @abc.abstractmethod
    def options_of(cls, found: finetuned.Finetuned) -> dict[str, Any] | None:
        """Returns the arguments of the class for a trained head, if any."""

    @classmethod
    def from_finetuned(
        cls, path: str, task: str = "", *, vocab_file: str = "", **options: Any
    ) -> Self:
        """Makes the model that `run_finetuning` trained, with its head.

        Args:
          path: a trial, or the directory `model` in it; or Hugging Face's
            directory of a fine-tuned model.
          task: name of the task, if the model has several.
          vocab_file: vocabulary of the encoder. Default: the one beside the
            checkpoint.
          **options: of the class; they override those of the checkpoint.

        Raises:
          UserError: if it cannot be read, or the head is of another task.
        """
        found = finetuned.read(path, vocab_file=vocab_file).of_task(task)
        known = cls.options_of(found)
        if known is None or found.kind not in ("", cls.KIND):
            raise UserError(
                f"{cls.__name__} has a head for {cls.KIND}, "
                f"{found.weights.origin} that of {found.task} {found.kind}."
            )
        if "max_seq_length" in found.metadata:
            known["max_seq_length"] = found.metadata["max_seq_length"]
        model = cls._from_weights(found.weights, **known | options)
        found.restore(model.head)
        return model

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of the logits; none if classes are numbers."""
        return self.classes.labels if self.classes else ()

    def call(self, inputs: Batch, training: bool = False) -> Outputs:
        inputs = self.complete(inputs)
        states, keys = self.states(inputs, training)
        return self.outputs_of(self.head(states, inputs, keys))

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "auto",
        loss: Any = "auto",
        *,
        metrics: Any = "auto",
        **arguments: Any,
    ) -> None:
        """Configures training.

        Args:
          optimizer: any of Keras'. Default: that of `make_optimizer`.
          loss: any loss of Keras that takes logits. Default: the class's.
          metrics: likewise; a tagger weights them by word.
          **arguments: of `keras.Model.compile`.

        Raises:
          UserError: if the loss takes logits for probabilities, or if one is
            given although the head computes it.
        """
        defaults = self.compile_defaults()
        own_loss = defaults.pop("loss")
        if optimizer == "auto":
            optimizer = self.make_optimizer()
        if isinstance(loss, str) and loss == "auto":
            loss = own_loss
        elif own_loss is None and loss is not None:
            raise UserError("The head computes the loss: override it instead.")
        _check_logits(loss)
        if isinstance(metrics, str) and metrics == "auto":
            arguments = {**defaults, **arguments}
        else:
            name = "weighted_metrics" if self.WEIGHT.is_sequence else "metrics"
            arguments[name] = metrics if metrics is None else [metrics]
        super().compile(optimizer=optimizer, loss=loss, **arguments)

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self,
        x: Batch | None = None,
        y: tf.Tensor | None = None,
        y_pred: Outputs | None = None,
        sample_weight: tf.Tensor | None = None,
        training: bool = True,
    ) -> tf.Tensor:
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        return weigh_gradient(loss, x, self.loss)

    def _maybe_symbolic_build(
        self, iterator: Iterator | None = None, data_batch: Any = None
    ) -> None:
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync > 1:
            # Keras would average the replicas' rows, which may be 3 and 2.
            data_batch = first_rows(iterator, strategy)
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def dataset(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = BATCH_SIZE,
        shuffle: bool = False,
        sample_weight: Sequence[float] | None = None,
    ) -> tf.data.Dataset:
        """Makes the batches of `fit`, for a training loop of your own.

        Args:
          x: inputs, as `fit` takes them.
          y: the target of each, or None.
          batch_size: rows in a batch.
          shuffle: whether to permute the rows, anew in every epoch.
          sample_weight: the weight of each input.

        Returns:
          Batches of the model's inputs, or tuples of these, targets, and
          weights if there are any.
        """
        rows = self._rows(x, y, sample_weight)
        return self._batches(rows).padded(
            batch_size, self.seed if shuffle else None
        )

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int = BATCH_SIZE,
        *,
        sample_weight: Sequence[float] | None = None,
        class_weight: Mapping[Any, float] | None = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        validation_batch_size: int | None = None,
        shuffle: bool = True,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """Trains; see the class, and `keras.Model.fit`."""
        self._assert_compile_called("fit")
        held_out_size = validation_batch_size or batch_size
        if class_weight:
            class_weight = dict(enumerate(self.classes.factors(class_weight)))
        if validation_data is not None:
            if isinstance(validation_data, tf.data.Dataset):
                validation_data = (validation_data,)
            validation_data = self._evaluation_batches(
                *validation_data, batch_size=held_out_size
            )
        if isinstance(x, tf.data.Dataset):
            arguments["class_weight"] = class_weight
            batches = self.read(x)
        else:
            rows = self._rows(x, y, sample_weight)
            if validation_split and validation_data is None:
                cut = int((rows[-1]["eid"] + 1) * (1 - validation_split))
                held_out = [row for row in rows if row["eid"] >= cut]
                rows = [row for row in rows if row["eid"] < cut]
                validation_data, _ = self._grouped(held_out, held_out_size)
            for row in rows if class_weight else ():
                weight = row.get(self.WEIGHT.name, 1.0)
                classes = np.vectorize(class_weight.get)
                factor = classes(row[self.TARGET.name])
                row[self.WEIGHT.name] = weight * factor
            seed = self.seed if shuffle else None
            batches = self._batches(rows).padded(batch_size, seed)
        self._fit_schedule(batches, arguments)
        if self.distribute_strategy.num_replicas_in_sync > 1:
            batches = add_places(batches)
        return super().fit(
            batches, validation_data=validation_data, shuffle=False, **arguments
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int = BATCH_SIZE,
        *,
        sample_weight: Sequence[float] | None = None,
        **arguments: Any,
    ) -> float | list[float] | dict[str, float]:
        """Computes loss and metrics; see the class."""
        self._assert_compile_called("evaluate")
        batches = self._evaluation_batches(
            x, y, sample_weight, batch_size=batch_size
        )
        return super().evaluate(batches, **arguments)

    def predict(
        self, x: Any, batch_size: int = BATCH_SIZE, **arguments: Any
    ) -> Any:
        """Computes the outputs of each input; see the class."""
        if isinstance(x, tf.data.Dataset):
            return super().predict(self.read(x), **arguments)
        return self._predict_rows(self._rows(x), batch_size, **arguments)

    def _predict_rows(
        self, rows: Sequence[Row], batch_size: int, **arguments: Any
    ) -> np.ndarray | dict[str, np.ndarray]:
        """Computes the outputs of rows, in order, by `keras.Model.predict`."""
        if self.IS_BY_TOKEN:  # Keras joins only outputs of equal lengths
            batches = self._batches(rows).padded(batch_size, None)
            places = np.arange(len(rows))
        else:
            batches, places = self._grouped(rows, batch_size)
        outputs = super().predict(batches, **arguments)
        return keras.tree.map_structure(lambda x: x[places], outputs)

    def read(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Converts batches as `dataset` makes them, or a user's."""
        return data

    def _rows(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Sequence[float] | None = None,
    ) -> list[dict[str, Any]]:
        """Makes rows, with their weights if there are any."""
        rows = [dict(row) for row in self.rows(x, y)]
        if sample_weight is None:
            return rows
        count, name = rows[-1]["eid"] + 1, self.WEIGHT.name
        if len(sample_weight) != count:
            raise ValueError(f"{len(sample_weight)} weights of {count} inputs")
        for row in rows:
            row[name] = row.get(name, 1.0) * sample_weight[row["eid"]]
        return rows

    def _evaluation_batches(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Sequence[float] | None = None,
        *,
        batch_size: int,
    ) -> tf.data.Dataset:
        if isinstance(x, tf.data.Dataset):
            return self.read(x)
        return self._grouped(self._rows(x, y, sample_weight), batch_size)[0]

    def _grouped(
        self, rows: Sequence[Row], batch_size: int
    ) -> tuple[tf.data.Dataset, np.ndarray]:
        """Makes batches with little padding; see `RowBatches.grouped`."""
        batches = self._batches(rows)
        if self.jit_compile:  # it compiles each shape
            return batches.padded(batch_size, None), np.arange(len(rows))
        return batches.grouped(batch_size)

    def _batches(self, rows: Sequence[Row]) -> RowBatches:
        inputs = (*TOKENS, *self.COLUMNS)
        return RowBatches(rows, inputs, self.TARGET, self.WEIGHT)

    def _fit_schedule(
        self, data: tf.data.Dataset, arguments: Mapping[str, Any]
    ) -> None:
        """Makes a `FittedDecay` as long as the training."""
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        schedule = getattr(optimizer, "_learning_rate", None)
        if not isinstance(schedule, FittedDecay):
            return
        steps = arguments.get("steps_per_epoch") or int(data.cardinality())
        epochs = arguments.get("epochs", 1) - arguments.get("initial_epoch", 0)
        last = int(optimizer.iterations.numpy()) + epochs * steps
        if schedule.num_train_steps is None:
            if steps <= 0:
                raise UserError(
                    "The number of batches is not known: give "
                    "make_optimizer(num_train_steps=epochs * batches)."
                )
            schedule.set_length(last)
        elif last > schedule.num_train_steps:
            warnings.warn(
                f"The learning rate is 0 from update "
                f"{schedule.num_train_steps} on, and `fit` runs to {last}: "
                "compile with a new model.make_optimizer().",
                ElectraWarning,
                stacklevel=3,
            )


def _check_logits(loss: Any) -> None:
    """Refuses losses of probabilities, which would learn from logits badly."""
    for value in map(keras.losses.get, keras.tree.flatten(loss)):
        if hasattr(value, "get_config"):
            from_logits = value.get_config().get("from_logits")
        elif inspect.isfunction(value):
            parameters = inspect.signature(value).parameters
            from_logits = getattr(parameters.get("from_logits"), "default", 0)
        else:
            continue
        if from_logits is False:
            raise UserError(f"Outputs are logits: {value} needs from_logits.")
