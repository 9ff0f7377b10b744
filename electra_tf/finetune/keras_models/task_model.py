"""What Keras models with a head have: fit, evaluate and predict on raw data."""

import abc
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune.examples import TOKENS, FeatureSpec
from electra_tf.finetune.features import Features
from electra_tf.finetune.keras_models import batches, logits, rates, trained
from electra_tf.finetune.keras_models.base import ElectraModel
from electra_tf.finetune.keras_models.trained import Trained
from electra_tf.finetune.task import Row
from electra_tf.util.errors import UserError

BATCH_SIZE = 32


class Data(NamedTuple):
    """What is learned from, or answered.

    Attributes:
      x: the inputs.
      y: what is right of each; None where that is not known.
      sample_weight: a number for each; None for 1.
    """

    x: Any
    y: Any = None
    sample_weight: Sequence[float] | None = None


class TaskModel(ElectraModel, abc.ABC):
    """An encoder with a head, which learns from data as they are.

    `fit`, `evaluate` and `predict` take Python sequences, of what the class
    says, or a `tf.data.Dataset`, and besides what Keras' own take. Sequences
    are tokenized once, before the first epoch. The rows to learn from are
    filled up to the longest of them, those of evaluation and prediction to
    the longest of a batch.

    Attributes:
      KIND: of what is learned, as `Task.KIND`.
      TARGETS: what is learned; of classes the first is their number.
      WEIGHT: how much a row, or each word of it, counts.
      IS_BY_TOKEN: whether outputs are as long as rows.
    """

    KIND: ClassVar[str]
    TARGETS: ClassVar[tuple[FeatureSpec, ...]]
    WEIGHT: ClassVar[FeatureSpec] = FeatureSpec("sample_weight", is_float=True)
    IS_BY_TOKEN: ClassVar[bool] = False

    @abc.abstractmethod
    def rows(self, x: Any, y: Any = None) -> Iterator[Row]:  # noqa: ANN401
        """Yields rows of tokens, columns and, if `y` is given, targets.

        Each has "eid", the number of its input; inputs are in order.

        Args:
          x: the inputs.
          y: what is right of each, or None.

        Raises:
          UserError: naming what cannot be used.
        """

    @abc.abstractmethod
    def num_inputs(self, x: Any) -> int:  # noqa: ANN401
        """Returns how many inputs there are in what `rows` takes."""

    @classmethod
    @abc.abstractmethod
    def options_of(cls, trained: Trained) -> dict[str, Any] | None:
        """Returns the arguments of the class for a trained head.

        Args:
          trained: what there is.

        Returns:
          None if the head is none of the class's.
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
        """Makes the model that `run_finetuning` trained, head and all.

        Args:
          path: of a trial, or of the directory `model` in it; or of Hugging
            Face's directory of a fine-tuned model.
          task: which one, of a model of several. Default: the only one.
          vocab_file: of the encoder. Default: the one beside the checkpoint.
          **options: of the class, in the place of those that are told there.

        Raises:
          UserError: if it cannot be read, or if the head is of another task.
        """
        found = trained.read(path, task, vocab_file=vocab_file)
        told = cls.options_of(found)
        if told is None or found.kind not in ("", cls.KIND):
            raise UserError(
                f"The head must be one of {cls.KIND} for {cls.__name__}. "
                f"Received: {found.weights.origin} with that of {found.task}"
                + f", {found.kind}."
                * bool(found.kind)
            )
        if "max_seq_length" in found.known:
            told["max_seq_length"] = found.known["max_seq_length"]
        model = cls._from_weights(found.weights, **told | options)
        mine = f"task_specific/{model.head.name}/"
        for variable in model.head.variables:
            name = variable.path.removeprefix(mine)
            variable.assign(
                found.weights.arrays[f"task_specific/{found.task}/{name}"]
            )
        return model

    @abc.abstractmethod
    def compile_defaults(self) -> dict[str, Any]:
        """Returns the loss and the metrics that `compile` takes itself."""

    def class_factors(self, class_weight: Mapping[Any, float]) -> np.ndarray:
        """Returns how much each class counts, float [C].

        Args:
          class_weight: class -> factor, 1 where absent.

        Raises:
          UserError: if there is no such class.
        """
        raise UserError(
            "`class_weight` must be left out where nothing is classified. "
            f"Received: class_weight={class_weight}."
        )

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer,
        loss: Any = "auto",  # noqa: ANN401 (as Keras has it)
        *,
        metrics: Any = "auto",  # noqa: ANN401
        **arguments: Any,  # noqa: ANN401
    ) -> None:
        """Says how to learn.

        Args:
          optimizer: of `make_optimizer`, or any of Keras'.
          loss: any of Keras' that takes logits; by default the class's.
          metrics: likewise.
          **arguments: of `keras.Model.compile`.

        Raises:
          UserError: if the loss or a metric takes logits for probabilities.
        """
        logits.check(loss, (metrics, arguments.get("weighted_metrics")))
        defaults = self.compile_defaults()
        default_loss = defaults.pop("loss")
        if isinstance(loss, str) and loss == "auto":
            loss = default_loss
        if isinstance(metrics, str) and metrics == "auto":
            arguments = {**defaults, **arguments}
        else:
            arguments["metrics"] = metrics
        super().compile(optimizer=optimizer, loss=loss, **arguments)

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        arguments = keras.saving.deserialize_keras_object(config)
        try:
            self.compile(**arguments)
        except UserError as error:  # files of before it was refused
            warnings.warn(f"{error} The class's own are taken.", stacklevel=2)
            for name in [x for x in arguments if "loss" in x or "metrics" in x]:
                del arguments[name]
            self.compile(**arguments)
        self.optimizer.build(self.trainable_variables)

    def dataset(
        self,
        x: Any,  # noqa: ANN401
        y: Any = None,  # noqa: ANN401
        *,
        batch_size: int = BATCH_SIZE,
        shuffle: bool = False,
        sample_weight: Sequence[float] | None = None,
    ) -> tf.data.Dataset:
        """Makes batches as `fit` does, for a training loop of your own.

        Args:
          x: inputs, as `fit` takes them.
          y: what is right of each, or None.
          batch_size: rows in a batch.
          shuffle: whether to permute the rows, anew in every epoch.
          sample_weight: how much each input counts.

        Returns:
          Batches of what the model reads, or tuples of these, what is right,
          and weights if there are any.
        """
        features = self._features(self._rows(Data(x, y, sample_weight)))
        seed = self.seed if shuffle else None
        return self._parts(batches.shuffled(features, batch_size, seed))

    def fit(
        self,
        x: Any = None,  # noqa: ANN401
        y: Any = None,  # noqa: ANN401
        **arguments: Any,  # noqa: ANN401
    ) -> keras.callbacks.History:
        """Trains; see the class, and `keras.Model.fit`."""
        size = arguments.pop("batch_size", None) or BATCH_SIZE
        held_out_size = arguments.pop("validation_batch_size", None) or size
        held_out = arguments.pop("validation_data", None)
        in_order = bool(arguments.get("validation_steps"))
        if isinstance(held_out, tf.data.Dataset):
            held_out = self.read(held_out)
        elif held_out is not None:
            rows = self._labelled(Data(*held_out))
            held_out = self._evaluated(rows, held_out_size, in_order)
        data = Data(x, y, arguments.pop("sample_weight", None))
        if isinstance(x, tf.data.Dataset):
            made = self.read(x)
            if weights := arguments.pop("class_weight", None):
                numbered = dict(enumerate(self.class_factors(weights)))
                arguments["class_weight"] = numbered
        else:
            rows = self._labelled(data)
            share = arguments.pop("validation_split", 0.0)
            if share and held_out is None:
                count = self.num_inputs(x)
                rows, rest = batches.split(rows, share, count)
                held_out = self._evaluated(rest, held_out_size, in_order)
            features = self._features(rows, arguments.pop("class_weight", None))
            seed = self.seed if arguments.pop("shuffle", True) else None
            made = self._parts(batches.shuffled(features, size, seed))
        rates.begin(self.optimizer, made, arguments)
        arguments["shuffle"] = False  # it is done
        return super().fit(made, validation_data=held_out, **arguments)

    def evaluate(
        self,
        x: Any = None,  # noqa: ANN401
        y: Any = None,  # noqa: ANN401
        **arguments: Any,  # noqa: ANN401
    ) -> float | list[float] | dict[str, float]:
        """Computes loss and metrics; see the class."""
        size = arguments.pop("batch_size", None) or BATCH_SIZE
        data = Data(x, y, arguments.pop("sample_weight", None))
        if isinstance(x, tf.data.Dataset):
            made = self.read(x)
        else:
            in_order = bool(arguments.get("steps"))
            made = self._evaluated(self._labelled(data), size, in_order)
        return super().evaluate(made, **arguments)

    def predict(self, x: Any, **arguments: Any) -> Any:  # noqa: ANN401
        """Computes the outputs of each input; see the class."""
        size = arguments.pop("batch_size", None) or BATCH_SIZE
        if isinstance(x, tf.data.Dataset):
            return super().predict(self.read(x), **arguments)
        return self.predict_rows(self._rows(Data(x)), size, **arguments)

    def predict_rows(
        self,
        rows: Sequence[Row],
        batch_size: int,
        **arguments: Any,  # noqa: ANN401
    ) -> np.ndarray | dict[str, np.ndarray]:
        """Computes the outputs of rows, in order.

        Args:
          rows: of `rows`.
          batch_size: rows at once; no output depends on it.
          **arguments: of `keras.Model.predict`.

        Raises:
          UserError: if only some "steps" are asked for.
        """
        if arguments.get("steps"):
            raise UserError(
                "`steps` must be left out where inputs are a sequence: give "
                f"fewer of them. Received: steps={arguments['steps']}."
            )
        if self.IS_BY_TOKEN:  # Keras joins outputs of one length
            features = self._features(rows)
            made = self._parts(batches.shuffled(features, batch_size, None))
            return super().predict(made, **arguments)
        made, places = self._by_length(rows, batch_size)
        outputs = super().predict(made, **arguments)
        return keras.tree.map_structure(lambda x: x[places], outputs)

    def read(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Turns a user's batches into those that the model reads.

        Args:
          data: batches as `dataset` makes them.

        Raises:
          UserError: if they are something else.
        """
        spec = data.element_spec
        inputs = spec[0] if isinstance(spec, tuple) else spec
        if not isinstance(inputs, dict) or "input_ids" not in inputs:
            raise UserError(
                "A dataset must hold batches as `model.dataset(x, y)` makes "
                f"them. Received: {inputs}. Map it to these, or to "
                "(texts, labels) where the model takes texts."
            )
        if inputs["input_ids"].shape.rank == 1:
            raise UserError(
                "A dataset must hold batches. Received: single rows, "
                f"{inputs}. Batch it: data.batch(32)."
            )
        return data

    def _labelled(self, data: Data) -> list[dict[str, Any]]:
        """Makes rows to learn from, or to evaluate on."""
        if data.y is None:
            raise UserError(
                "`y` must say what is right of each input. Received: none."
            )
        rows = self._rows(data)
        if not rows:
            raise UserError(
                "There must be rows to learn from. Received: "
                f"{self.num_inputs(data.x)} inputs without any."
            )
        return rows

    def _rows(self, data: Data) -> list[dict[str, Any]]:
        """Makes rows, with their weights if there are any."""
        rows = [dict(row) for row in self.rows(data.x, data.y)]
        if data.sample_weight is None:
            return rows
        weights = np.asarray(data.sample_weight, np.float32)
        count = self.num_inputs(data.x)
        if weights.shape != (count,):
            raise UserError(
                f"`sample_weight` must have a number for each of {count} "
                f"inputs. Received: shape {list(weights.shape)}."
            )
        for row in rows:
            weight = row.get(self.WEIGHT.name, 1.0)
            row[self.WEIGHT.name] = weight * weights[row["eid"]]
        return rows

    def _features(
        self,
        rows: Sequence[dict[str, Any]],
        class_weight: Mapping[Any, float] | None = None,
    ) -> Features:
        """Makes the columns of rows, and has classes count as they should."""
        if class_weight:
            factors = self.class_factors(class_weight)
            for row in rows:
                weight = row.get(self.WEIGHT.name, 1.0)
                factor = factors[row[self.TARGETS[0].name]]
                row[self.WEIGHT.name] = weight * factor
        specs = (*TOKENS, *self.COLUMNS, *self.TARGETS, self.WEIGHT)
        return Features(rows, [spec for spec in specs if spec.name in rows[0]])

    def _evaluated(
        self, rows: list[dict[str, Any]], batch_size: int, in_order: bool
    ) -> tf.data.Dataset:
        """Makes batches to evaluate on; in order where some may be left out."""
        if in_order:
            features = self._features(rows)
            return self._parts(batches.shuffled(features, batch_size, None))
        return self._by_length(rows, batch_size)[0]

    def _by_length(
        self, rows: Sequence[dict[str, Any]], batch_size: int
    ) -> tuple[tf.data.Dataset, np.ndarray]:
        """Makes batches without much padding, and finds the rows in them."""
        features = self._features(rows)
        if self.jit_compile:  # it would compile each length
            made = batches.shuffled(features, batch_size, None)
            return self._parts(made), np.arange(len(rows))
        made, places = batches.by_length(features, batch_size)
        return self._parts(made), places

    def _parts(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Divides batches as Keras wants them: inputs, targets, weights."""
        targets = [spec.name for spec in self.TARGETS]
        return batches.divided(data, targets, self.WEIGHT.name)
