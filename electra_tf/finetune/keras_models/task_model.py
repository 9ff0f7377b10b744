"""Encoders with a head: Keras models that fit and predict raw data."""

import abc
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from electra_tf.config.optimizer import default_epochs
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.keras_models.base import ElectraModel, FittedDecay
from electra_tf.finetune.preprocessing import Batch, Features, Row
from electra_tf.finetune.task import Head, Task
from electra_tf.model.layers import dtype_scope
from electra_tf.model.networks import IDS
from electra_tf.util import seeds
from electra_tf.util.errors import UserError, advise

BATCH_SIZE = 32
WEIGHT = "sample_weight"
"""The column with the weight of a row, or of each word."""

Outputs = tf.Tensor | dict[str, tf.Tensor]


class TaskModel(ElectraModel, abc.ABC):
    """An encoder with a head, for raw data.

    `fit`, `evaluate` and `predict` take the arguments of Keras' own. Data are
    Python sequences, tokenized once, or a `tf.data.Dataset`. Training rows are
    padded to the longest row, others to the longest row of their batch: results
    do not depend on `batch_size`.

    Attributes:
      KIND: kind of the task, see `Task.KIND`.
      TARGET: column of the targets; empty if the head computes the loss.
      LOSS, METRICS: defaults of `compile`.
      WEIGHS_METRICS: whether metrics use the weights of words.
      options: arguments of the class beside those of `ElectraModel`.
    """

    KIND: str
    TARGET = ""
    LOSS: keras.losses.Loss | None = None
    METRICS: Sequence[str] = ()
    DEFAULT_EPOCHS = Task.DEFAULT_EPOCHS
    WEIGHS_METRICS = False

    options: Mapping[str, Any]

    def _add(self, head_class: type[Head], *arguments: Any) -> None:
        """Makes and builds the head."""
        with dtype_scope(self.dtype_policy):
            head = head_class(*arguments)
            self.head = head.build_for(self.config.hidden_size)
        self.supports_jit = True  # strings are read outside of the model

    @abc.abstractmethod
    def rows(self, x: Any, y: Any = None) -> Iterator[Row]:
        """Yields rows of tokens, columns and, if `y` is given, targets.

        "eid" is the number of a row's input; inputs are in order.
        """

    @classmethod
    @abc.abstractmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        """Returns the arguments of the class for a trained head, if any."""

    def outputs_of(self, head_outputs: Mapping[str, tf.Tensor]) -> Outputs:
        """Returns the model's outputs, float32, from its head's."""
        return head_outputs["logits"]

    @classmethod
    def from_finetuned(
        cls, path: str, task: str = "", *, vocab_file: str = "", **options: Any
    ) -> Self:
        """Makes the model that `run_finetuning` trained, with its head.

        Args:
          path: directory of a trial, or a fine-tuned model of Hugging Face.
          task: name of the task, if the model has several.
          vocab_file: vocabulary file. Default: the one beside the checkpoint.
          **options: options of the class, which override the checkpoint's.

        Raises:
          UserError: if the model cannot be read or has another head.
        """
        found = Finetuned(path, task, vocab_file)
        known = cls.options_of(found)
        if not known or found.kind not in ("", cls.KIND):
            raise UserError(
                f"{cls.__name__} does {cls.KIND}, the head of "
                f"{found.weights.origin} {found.task} {found.kind}."
            )
        if "max_seq_length" in found.metadata:
            known["max_seq_length"] = found.metadata["max_seq_length"]
        model = cls._from_weights(found.weights, **known | options)
        found.restore(model.head)
        return model

    def call(self, inputs: Batch, training: bool = False) -> Outputs:
        inputs = self.complete(inputs)
        keys = self.dropout_keys(inputs) if training else None
        states = self.encode(inputs, seeds.fold_in(keys, 0))
        head_outputs = self.head(states, inputs, seeds.fold_in(keys, 1))
        return self.outputs_of(head_outputs)

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "auto",
        loss: Any = "auto",
        *,
        metrics: Any = "auto",
        **arguments: Any,
    ) -> None:
        """Configures training as `keras.Model.compile`.

        The default optimizer is `make_optimizer()`. Losses take logits; a
        tagger weights metrics by word.

        Raises:
          UserError: if the loss takes probabilities, or the head computes it.
        """
        if optimizer == "auto":
            optimizer = self.make_optimizer()
        if loss == "auto":
            loss = self.LOSS
        elif loss is not None and not self.TARGET:
            raise UserError("The head computes the loss.")
        is_name = isinstance(loss, str) and "crossentropy" in loss
        if is_name or getattr(loss, "from_logits", None) is False:
            raise UserError(f"Outputs are logits: {loss} needs from_logits.")
        if metrics == "auto":
            metrics = list(self.METRICS) or None
        if metrics and self.WEIGHS_METRICS:
            arguments["weighted_metrics"], metrics = metrics, None
        super().compile(
            optimizer=optimizer, loss=loss, metrics=metrics, **arguments
        )
        if not self.optimizer.built:  # `load_weights` reads slots and step
            self.optimizer.build(self.trainable_variables)

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int = BATCH_SIZE,
        epochs: int | None = None,
        *,
        sample_weight: Sequence[float] | None = None,
        class_weight: Mapping[Any, float] | None = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        validation_batch_size: int | None = None,
        shuffle: bool = True,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """Trains; see the class, and `keras.Model.fit`.

        The default of `epochs` is that of `run_finetuning`: 3 (questions: 2),
        or, with a hidden size below 256, up to 10 until update 1,000.
        """
        held_out = {
            "batch_size": validation_batch_size or batch_size,
            "by_length": True,
        }
        inputs = None
        if isinstance(validation_data, tf.data.Dataset):
            validation_data = self.read_batches(validation_data)
        elif validation_data is not None:
            validation_data = self.dataset(*validation_data, **held_out)
        elif validation_split:
            inputs = range(int(len(y) * (1 - validation_split)))
            last = range(len(inputs), len(y))
            validation_data = self.dataset(
                x, y, sample_weight, inputs=last, **held_out
            )
        data = self.dataset(
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            shuffle=shuffle,
            inputs=inputs,
        )
        if class_weight:
            if self.options.get("is_multi_label"):
                raise UserError("Several labels of a text have no one weight.")
            number = self.classes.number
            class_weight = {number(k): x for k, x in class_weight.items()}
        steps = arguments.get("steps_per_epoch") or int(data.cardinality())
        epochs = epochs or math.ceil(
            default_epochs(self.DEFAULT_EPOCHS, self.config.hidden_size, steps)
        )
        start = arguments.get("initial_epoch", 0)
        self._fit_schedule(steps, range(start, epochs))
        return super().fit(
            data,
            epochs=epochs,
            validation_data=validation_data,
            class_weight=class_weight,
            shuffle=False,
            **arguments,
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
        data = self.dataset(
            x, y, sample_weight, batch_size=batch_size, by_length=True
        )
        return super().evaluate(data, **arguments)

    def predict(
        self, x: Any, batch_size: int = BATCH_SIZE, **arguments: Any
    ) -> Any:
        """Computes the outputs of each row; see the class."""
        data = self.dataset(x, batch_size=batch_size)
        return super().predict(data, **arguments)

    def dataset(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Sequence[float] | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        shuffle: bool = False,
        by_length: bool = False,
        inputs: Collection[int] | None = None,
    ) -> tf.data.Dataset:
        """Makes batches: inputs, with targets and weights if there are any.

        With `by_length`, rows are in the order of their lengths and padded to
        the longest of a batch. `inputs` numbers the inputs to use, by default
        all. Other arguments are those of `fit`.
        """
        if isinstance(x, tf.data.Dataset):
            return self.read_batches(x)
        rows = [dict(row) for row in self.rows(x, y)]
        if sample_weight is not None:
            if len(sample_weight) != rows[-1]["eid"] + 1:
                raise ValueError("Inputs and their weights differ in number.")
            for row in rows:
                row[WEIGHT] = row.get(WEIGHT, 1.0) * sample_weight[row["eid"]]
        if inputs is not None:
            rows = [row for row in rows if row["eid"] in inputs]
        if by_length:
            rows.sort(key=lambda row: len(row["input_ids"]))
        return self._batches(rows, batch_size, by_length, shuffle)

    def read_batches(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Converts batches as `dataset` makes them, or a user's."""
        return data

    def _batches(
        self,
        rows: Sequence[Row],
        batch_size: int,
        by_length: bool = False,
        shuffle: bool = False,
    ) -> tf.data.Dataset:
        """Batches rows, padded to the longest of all or of the batch."""
        names = {*IDS, *self.OPTIONAL_INPUTS, self.TARGET, WEIGHT}
        features = Features(
            {name: row[name] for name in names & row.keys()} for row in rows
        )
        is_padded = not by_length or self.jit_compile  # XLA compiles each shape
        length = features.length if is_padded else None

        def batch(indices: tf.Tensor) -> Batch | tuple:
            inputs = features.batch(indices, length)
            weights = inputs.pop(WEIGHT, None)
            if self.TARGET not in inputs:
                # () for no targets: replicas cannot share None.
                return inputs if weights is None else (inputs, (), weights)
            y = inputs.pop(self.TARGET)
            if y.dtype.is_floating:  # as outputs: [B] with [B, 1] makes [B, B]
                y = y[:, tf.newaxis]
            return keras.utils.pack_x_y_sample_weight(inputs, y, weights)

        order = tf.data.Dataset.range(len(rows))
        if shuffle:
            order = order.shuffle(len(rows), seed=self.seed)
        data = order.batch(batch_size)
        data = data.map(batch, num_parallel_calls=tf.data.AUTOTUNE)
        return data.prefetch(tf.data.AUTOTUNE)

    def _fit_schedule(self, steps: int, epochs: range) -> None:
        """Makes a `FittedDecay` as long as the training."""
        if epochs.start and not int(self.optimizer.iterations):
            advise(
                f"Epoch {epochs.start} starts with a new optimizer: load a "
                ".keras file, or compile before `load_weights`."
            )
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        schedule = getattr(optimizer, "_learning_rate", None)
        if not isinstance(schedule, FittedDecay):
            return
        last = int(optimizer.iterations) + len(epochs) * steps
        if schedule.num_train_steps is None:
            if steps <= 0:
                raise UserError(
                    "Data of unknown length need "
                    "make_optimizer(num_train_steps=...)."
                )
            schedule.num_train_steps = last
        elif last > schedule.num_train_steps:
            advise(
                f"`fit` ends at update {last}, but the learning rate is 0 from "
                f"{schedule.num_train_steps} on: compile again."
            )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.options}
