"""Encoders with a head: Keras models that fit and predict raw data."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune import finetuned
from electra_tf.finetune.examples import TOKENS, FeatureSpec
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.keras_models import batches, fitting, replicas
from electra_tf.finetune.keras_models.base import Batch, ElectraModel
from electra_tf.finetune.keras_models.batches import Data, RowBatches
from electra_tf.finetune.keras_models.input_checks import (
    Labels,
    check_sequence,
    columns_of,
)
from electra_tf.finetune.task import Row
from electra_tf.util.errors import UserError

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
      TARGETS: columns of the targets, such as a classifier's class number.
      WEIGHT: column of the weight of a row, or of each word of it.
      IS_BY_TOKEN: whether outputs are as long as rows.
      classes: of a classifier or tagger; None for other models.
    """

    KIND: ClassVar[str]
    TARGETS: ClassVar[tuple[FeatureSpec, ...]]
    WEIGHT: ClassVar[FeatureSpec] = FeatureSpec("sample_weight", is_float=True)
    IS_BY_TOKEN: ClassVar[bool] = False

    classes: Labels | None = None

    @abc.abstractmethod
    def rows(self, x: Any, y: Any = None) -> Iterator[Row]:  # noqa: ANN401
        """Yields rows of tokens, columns and, if `y` is given, targets.

        Each has "eid", the number of its input; inputs are in order.

        Args:
          x: the inputs.
          y: the target of each, or None.

        Raises:
          UserError: naming what cannot be used.
        """

    def num_inputs(self, x: Any) -> int:  # noqa: ANN401
        """Returns the number of inputs in what `rows` takes."""
        return len(columns_of(x)[0])

    def outputs_of(self, head_outputs: Mapping[str, tf.Tensor]) -> Outputs:
        """Returns the model's outputs, float32, from those of its head."""
        return head_outputs["logits"]

    @abc.abstractmethod
    def compile_defaults(self) -> dict[str, Any]:
        """Returns the default loss and metrics of `compile`.

        A loss of None means that of the head, which cannot be replaced.
        """

    @classmethod
    @abc.abstractmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        """Returns the arguments of the class for a trained head.

        Returns:
          Name -> value; None if the class has no such head.
        """

    @classmethod
    def from_finetuned(
        cls,
        path: str,
        task: str = "",
        *,
        vocab_file: str = "",
        **options: Any,  # noqa: ANN401 (those of the class)
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
                f"{cls.__name__} must have a head for {cls.KIND}. "
                f"Received: {found.weights.origin} with that of {found.task}"
                + f", {found.kind}."
                * bool(found.kind)
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

    def _class_factors(self, class_weight: Mapping[Any, float]) -> np.ndarray:
        """Returns the weight of each class, float [C]; see `Labels.factors`."""
        if self.classes is None:
            raise UserError(
                "`class_weight` must be left out of models without classes. "
                f"Received: class_weight={class_weight}."
            )
        return self.classes.factors(class_weight)

    def call(self, inputs: Batch, training: bool = False) -> Outputs:
        inputs = self.complete(inputs)
        states, keys = self.states(inputs, training)
        return self.outputs_of(self.head(states, inputs, keys))

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "auto",
        loss: Any = "auto",  # noqa: ANN401 (as Keras has it)
        *,
        metrics: Any = "auto",  # noqa: ANN401
        **arguments: Any,  # noqa: ANN401
    ) -> None:
        """Configures training.

        Args:
          optimizer: any of Keras'. Default: that of `make_optimizer`.
          loss: any loss of Keras that takes logits. Default: the class's.
          metrics: likewise; a tagger weights them by word.
          **arguments: of `keras.Model.compile`.

        Raises:
          UserError: if the loss or a metric takes logits for probabilities,
            or if one is given although the head computes it.
        """
        if isinstance(optimizer, str) and optimizer == "auto":
            optimizer = self.make_optimizer()
        defaults = self.compile_defaults()
        default_loss = defaults.pop("loss")
        if isinstance(loss, str) and loss == "auto":
            loss = default_loss
        weighted = arguments.get("weighted_metrics")
        if default_loss is None:
            given = weighted or (metrics != "auto" and metrics)
            fitting.check_left_out(loss, given, type(self).__name__)
        fitting.check_logits(loss, (metrics, weighted))
        if isinstance(metrics, str) and metrics == "auto":
            arguments = {**defaults, **arguments}
        elif metrics and self.WEIGHT.is_sequence:
            given = metrics if isinstance(metrics, list) else [metrics]
            arguments["weighted_metrics"] = [*given, *(weighted or [])]
        else:
            arguments["metrics"] = metrics
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
        return replicas.weigh_gradient(loss, x, self.loss)

    def _maybe_symbolic_build(
        self,
        iterator: Iterator | None = None,
        data_batch: Any = None,  # noqa: ANN401
    ) -> None:
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync > 1:
            # Keras would average the replicas' rows, which may be 3 and 2.
            data_batch = replicas.first_rows(iterator, strategy)
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def dataset(
        self,
        x: Any,  # noqa: ANN401
        y: Any = None,  # noqa: ANN401
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
        rows = self._rows(Data(x, y, sample_weight))
        seed = self.seed if shuffle else None
        return self._batches(rows).padded(batch_size, seed)

    def fit(
        self,
        x: Any = None,  # noqa: ANN401
        y: Any = None,  # noqa: ANN401
        **arguments: Any,  # noqa: ANN401
    ) -> keras.callbacks.History:
        """Trains; see the class, and `keras.Model.fit`."""
        self._assert_compile_called("fit")
        size = arguments.pop("batch_size", None) or BATCH_SIZE
        held_out_size = arguments.pop("validation_batch_size", None) or size
        keeps_order = bool(arguments.get("validation_steps"))
        held_out = arguments.pop("validation_data", None)
        if held_out is not None:
            held_out = self._evaluation_batches(
                Data.held_out(held_out), held_out_size, keeps_order
            )
        data = Data.checked(x, y, arguments.pop("sample_weight", None))
        if isinstance(x, tf.data.Dataset):
            made = self._read_with_targets(x)
            if weights := arguments.pop("class_weight", None):
                numbered = dict(enumerate(self._class_factors(weights)))
                batches.check_weights(made, self.WEIGHT)
                arguments["class_weight"] = numbered
        else:
            rows = self._rows_with_targets(data)
            share = arguments.pop("validation_split", 0.0)
            if share and held_out is None:
                rows, rest = batches.split(rows, share, self.num_inputs(x))
                held_out, _ = self._grouped(rest, held_out_size, keeps_order)
            self._weigh(rows, arguments.pop("class_weight", None))
            seed = self.seed if arguments.pop("shuffle", True) else None
            made = self._batches(rows).padded(size, seed)
        fitting.fit_schedule(self.optimizer, made, arguments)
        made = replicas.add_places(made, self.distribute_strategy)
        arguments["shuffle"] = False  # the dataset does it
        return super().fit(made, validation_data=held_out, **arguments)

    def evaluate(
        self,
        x: Any = None,  # noqa: ANN401
        y: Any = None,  # noqa: ANN401
        **arguments: Any,  # noqa: ANN401
    ) -> float | list[float] | dict[str, float]:
        """Computes loss and metrics; see the class."""
        self._assert_compile_called("evaluate")
        size = arguments.pop("batch_size", None) or BATCH_SIZE
        data = Data.checked(x, y, arguments.pop("sample_weight", None))
        made = self._evaluation_batches(
            data, size, bool(arguments.get("steps"))
        )
        return super().evaluate(made, **arguments)

    def predict(self, x: Any, **arguments: Any) -> Any:  # noqa: ANN401
        """Computes the outputs of each input; see the class."""
        size = arguments.pop("batch_size", None) or BATCH_SIZE
        if isinstance(x, tf.data.Dataset):
            return super().predict(self.read(x), **arguments)
        return self._predict_rows(self._rows(Data(x)), size, **arguments)

    def _predict_rows(
        self,
        rows: Sequence[Row],
        batch_size: int,
        **arguments: Any,  # noqa: ANN401
    ) -> np.ndarray | dict[str, np.ndarray]:
        """Computes the outputs of rows, in order, by `keras.Model.predict`."""
        if arguments.get("steps"):
            raise UserError(
                "`steps` must be left out where inputs are a sequence: give "
                f"fewer of them. Received: steps={arguments['steps']}."
            )
        # Keras can join outputs only if their lengths are equal.
        made, places = self._grouped(rows, batch_size, self.IS_BY_TOKEN)
        outputs = super().predict(made, **arguments)
        return keras.tree.map_structure(lambda x: x[places], outputs)

    def read(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Checks a user's batches, and converts them for the model.

        Args:
          data: batches as `dataset` makes them.

        Raises:
          UserError: if they are something else.
        """
        batches.check_rows(data)
        return data

    def _read_with_targets(self, data: tf.data.Dataset) -> tf.data.Dataset:
        made = self.read(data)
        if self.TARGETS and self.loss is not None:
            batches.check_targets(made)
        return made

    def _rows_with_targets(self, data: Data) -> list[dict[str, Any]]:
        """Makes rows with targets, at least one."""
        check_sequence(data.x, "`x` must be a sequence or a tf.data.Dataset")
        fitting.check_takes_numbers(self.loss)
        if data.y is None:
            raise UserError(
                "`y` must hold the target of each input. Received: none."
            )
        rows = self._rows(data)
        if not rows:
            raise UserError(
                "There must be rows to learn from. Received: "
                f"{self.num_inputs(data.x)} inputs that make none."
            )
        return rows

    def _rows(self, data: Data) -> list[dict[str, Any]]:
        """Makes rows, with their weights if there are any."""
        rows = [dict(row) for row in self.rows(data.x, data.y)]
        if data.sample_weight is not None:
            weights = np.asarray(data.sample_weight, np.float32)
            count = self.num_inputs(data.x)
            batches.weigh_inputs(rows, weights, count, self.WEIGHT.name)
        return rows

    def _weigh(
        self,
        rows: Sequence[dict[str, Any]],
        class_weight: Mapping[Any, float] | None,
    ) -> None:
        """Multiplies the weights of rows, or words, by those of classes."""
        if not class_weight:
            return
        factors = self._class_factors(class_weight)
        for row in rows:
            weight = row.get(self.WEIGHT.name, 1.0)
            factor = factors[row[self.TARGETS[0].name]]
            row[self.WEIGHT.name] = weight * factor

    def _evaluation_batches(
        self, data: Data, batch_size: int, keeps_order: bool
    ) -> tf.data.Dataset:
        """Makes batches with targets, from a dataset or from sequences."""
        if isinstance(data.x, tf.data.Dataset):
            return self._read_with_targets(data.x)
        return self._grouped(
            self._rows_with_targets(data), batch_size, keeps_order
        )[0]

    def _grouped(
        self, rows: Sequence[Row], batch_size: int, keeps_order: bool
    ) -> tuple[tf.data.Dataset, np.ndarray]:
        """Makes batches with little padding; see `RowBatches.grouped`."""
        made = self._batches(rows)
        if keeps_order or self.jit_compile:
            return made.padded(batch_size, None), np.arange(len(rows))
        return made.grouped(batch_size)

    def _batches(self, rows: Sequence[Row]) -> RowBatches:
        inputs = (*TOKENS, *self.COLUMNS)
        return RowBatches(rows, inputs, self.TARGETS, self.WEIGHT)
