"""Batches of rows for Keras' `fit`, `evaluate` and `predict`."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.features import Batch, Features, check_batch_size
from electra_tf.finetune.keras_models.input_checks import check_sequence
from electra_tf.finetune.task import Row
from electra_tf.util.errors import UserError


class Data(NamedTuple):
    """Data to train on, to evaluate or to predict."""

    x: Any
    y: Any = None
    sample_weight: Sequence[float] | None = None

    @classmethod
    def checked(
        cls,
        x: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        sample_weight: Sequence[float] | None,
    ) -> Self:
        """Makes data from the arguments of `fit` or `evaluate`."""
        given = (("y", y), ("sample_weight", sample_weight))
        more = [name for name, value in given if value is not None]
        if isinstance(x, tf.data.Dataset) and more:
            raise UserError(
                "A tf.data.Dataset must itself hold targets and weights. "
                f"Received: {' and '.join(more)} as well. Zip them into it."
            )
        return cls(x, y, sample_weight)

    @classmethod
    def held_out(cls, given: Any) -> Self:  # noqa: ANN401
        """Makes data from `validation_data`, an argument of `fit`."""
        if isinstance(given, tf.data.Dataset):
            return cls(given)
        expected = (
            "`validation_data` must be (x, y), (x, y, sample_weight) or a "
            "tf.data.Dataset"
        )
        check_sequence(given, expected)
        if not (isinstance(given, tuple | list) and len(given) in (2, 3)):
            raise UserError(
                f"{expected}. Received: a {type(given).__name__} of "
                f"{len(given)}."
            )
        return cls(*given)


class RowBatches:
    """Batches of rows: inputs, or tuples of these, targets and weights."""

    def __init__(
        self,
        rows: Sequence[Row],
        inputs: Sequence[FeatureSpec],
        targets: Sequence[FeatureSpec],
        weight: FeatureSpec,
    ) -> None:
        specs = [x for x in (*inputs, *targets, weight) if x.name in rows[0]]
        self.features = Features(rows, specs)
        self._targets = [spec for spec in targets if spec in specs]
        self._weight = weight.name

    def padded(self, batch_size: int, seed: int | None) -> tf.data.Dataset:
        """Makes batches that are all padded to the longest row."""
        check_batch_size(batch_size)
        features = self.features
        order = tf.data.Dataset.range(features.num_rows)
        if seed is not None:
            order = order.shuffle(features.num_rows, seed=seed)
        made = order.batch(batch_size).map(
            lambda indices: features.batch(indices, features.length),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return made.map(self._tuple).prefetch(tf.data.AUTOTUNE)

    def grouped(self, batch_size: int) -> tuple[tf.data.Dataset, np.ndarray]:
        """Makes batches of rows of similar length."""
        features = self.features
        example = features.batch(tf.range(1), features.length)
        order = np.concatenate([i for i, _ in features.batches(batch_size)])
        made = tf.data.Dataset.from_generator(
            lambda: (batch for _, batch in features.batches(batch_size)),
            output_signature={
                name: tf.TensorSpec([None] * x.shape.rank, x.dtype)
                for name, x in example.items()
            },
        )
        size = -(-features.num_rows // batch_size)
        made = made.apply(tf.data.experimental.assert_cardinality(size))
        made = made.map(self._tuple).prefetch(tf.data.AUTOTUNE)
        return made, np.argsort(order, kind="stable")

    def _tuple(self, batch: Batch) -> Batch | tuple:
        """Splits a batch into the tuple that Keras expects."""
        inputs = dict(batch)
        found = [_target(spec, inputs.pop(spec.name)) for spec in self._targets]
        weights = inputs.pop(self._weight, None)
        if not found:
            # () for no targets: replicas cannot share None.
            return inputs if weights is None else (inputs, (), weights)
        y = found[0] if len(found) == 1 else tuple(found)
        return (inputs, y) if weights is None else (inputs, y, weights)


def _target(spec: FeatureSpec, values: tf.Tensor) -> tf.Tensor:
    """Returns values as [B, 1], like outputs: [B] with [B, 1] makes [B, B]."""
    is_value = spec.is_float and not spec.is_sequence
    return values[:, tf.newaxis] if is_value else values


def check_rows(data: tf.data.Dataset) -> None:
    """Checks that a dataset holds batches of rows, as `dataset` makes them."""
    spec = data.element_spec
    inputs = spec[0] if isinstance(spec, tuple) else spec
    if not isinstance(inputs, dict) or "input_ids" not in inputs:
        raise UserError(
            "A dataset must hold batches as `model.dataset(x, y)` makes them. "
            f"Received: {inputs}. Map it to these, or to (texts, labels) where "
            "the model takes texts."
        )
    if inputs["input_ids"].shape.rank == 1:
        raise UserError(
            "A dataset must hold batches. Received: single rows, "
            f"{inputs}. Batch it: data.batch(32)."
        )


def check_targets(data: tf.data.Dataset) -> None:
    """Checks that batches have targets."""
    spec = data.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or spec[1] == ():
        raise UserError(
            "A dataset to learn from must hold (inputs, targets). Received: "
            f"{spec}. Zip labels into it, or give `y` to `model.dataset`."
        )


def check_weights(data: tf.data.Dataset, weight: FeatureSpec) -> None:
    """Checks that the rows of a dataset can have the weights of classes."""
    if weight.is_sequence or len(data.element_spec) > 2:
        raise UserError(
            "`class_weight` must be left out where rows or words of a dataset "
            "have weights. Received: both. Multiply those of the dataset, or "
            "give sequences."
        )


def weigh_inputs(
    rows: Sequence[dict[str, Any]], weights: np.ndarray, count: int, name: str
) -> None:
    """Multiplies the weights of rows by those of their inputs."""
    if weights.shape != (count,):
        raise UserError(
            f"`sample_weight` must have a number for each of {count} inputs. "
            f"Received: shape {list(weights.shape)}."
        )
    for row in rows:
        row[name] = row.get(name, 1.0) * weights[row["eid"]]


def split(
    rows: list[dict[str, Any]], share: float, count: int
) -> tuple[list, list]:
    """Holds out the rows of the last inputs, as Keras does."""
    cut = int(count * (1 - share))
    if not 0 < cut < count:
        raise UserError(
            "`validation_split` must leave rows to learn from and rows to "
            f"validate on. Received: validation_split={share} of {count}."
        )
    return (
        [row for row in rows if row["eid"] < cut],
        [row for row in rows if row["eid"] >= cut],
    )
