"""What users pass to `fit` and `predict`: texts, pairs, labels; and batches.

Replicas may not share a batch equally. So each row knows its place in the
global batch and 1 / the rows of that batch, and replicas learn as one device,
with the same dropout.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune.preprocessing import Batch, Features, FeatureSpec, Row
from electra_tf.util.errors import UserError

Texts = Sequence[str] | Sequence[tuple[str, str]] | tuple[Sequence[str], ...]
"""Texts; or pairs, as a sequence of tuples, or as a tuple of two sequences."""
SAMPLE_WEIGHT = FeatureSpec("sample_weight", is_float=True)
PLACE = "place_in_batch"  # int32 [B]
SHARE = "share_of_batch"  # float32 [B]


def columns_of(texts: Texts) -> list[list[str]]:
    """Returns texts as one column, pairs as two."""
    if isinstance(texts, str | Mapping):  # read by letter, or by key
        raise UserError(f"Texts are a sequence of strings, not {texts!r:.60}.")
    if isinstance(texts, tf.Tensor):
        texts = [text.decode() for text in texts.numpy().tolist()]
    if isinstance(next(iter(texts), ""), str):
        return [list(texts)]
    if not isinstance(texts, tuple):
        return [list(column) for column in zip(*texts, strict=True)]
    if len(texts) != 2 or all(
        len(part) == 2 and isinstance(part, tuple) for part in texts
    ):
        raise UserError("A tuple has two columns: give pairs as a list.")
    return [list(column) for column in texts]


class Labels:
    """The classes of a head: their numbers, and labels if there are any."""

    def __init__(self, count: int | None, labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        self.count = len(self.labels) if count is None else int(count)
        self._numbers = {label: i for i, label in enumerate(self.labels)}
        if self.labels and len(self._numbers) != self.count or self.count < 1:
            raise UserError(
                f"{self.count} classes have the labels {self.labels}."
            )

    def number(self, label: str | int) -> int:
        """Returns the number of a class, given by label or by number."""
        if isinstance(label, str):
            return self._numbers[label]
        # 1 may be the first label, "1", or the second class.
        if str(label) in self._numbers and self._numbers[str(label)] != label:
            raise UserError(f"Give labels as strings: {label} is ambiguous.")
        if label not in range(self.count):
            raise UserError(f"{label} is none of {self.count} classes.")
        return int(label)

    def name(self, number: int) -> str | int:
        """Returns the label of a class; its number if it has none."""
        return self.labels[number] if self.labels else int(number)

    def factors(self, class_weight: Mapping[Any, float]) -> np.ndarray:
        """Returns the weight of each class, float [C]."""
        factors = np.ones(self.count)
        for label, factor in class_weight.items():
            factors[self.number(label)] = factor
        return factors


class RowBatches:
    """Batches of rows: inputs, or tuples of these, targets and weights."""

    def __init__(
        self,
        rows: Sequence[Row],
        inputs: Sequence[FeatureSpec],
        target: FeatureSpec | None,
        weight: FeatureSpec,
    ) -> None:
        specs = [spec for spec in (*inputs, target, weight) if spec]
        self.features = Features(
            rows, [spec for spec in specs if spec.name in rows[0]]
        )
        self._target = target
        self._weight = weight

    def padded(self, batch_size: int, seed: int | None) -> tf.data.Dataset:
        """Makes batches that are all padded to the longest row."""
        features = self.features
        order = tf.data.Dataset.range(features.num_rows)
        if seed is not None:
            order = order.shuffle(features.num_rows, seed=seed)
        batches = order.batch(batch_size).map(
            lambda indices: features.batch(indices, features.length),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return batches.map(self._tuple).prefetch(tf.data.AUTOTUNE)

    def grouped(self, batch_size: int) -> tuple[tf.data.Dataset, np.ndarray]:
        """Makes batches of rows of similar length, and each row's place."""
        features = self.features
        example = features.batch(tf.range(1), features.length)
        order = np.concatenate([i for i, _ in features.batches(batch_size)])
        batches = tf.data.Dataset.from_generator(
            lambda: (batch for _, batch in features.batches(batch_size)),
            output_signature={
                name: tf.TensorSpec([None] * x.shape.rank, x.dtype)
                for name, x in example.items()
            },
        )
        size = -(-features.num_rows // batch_size)
        batches = batches.apply(tf.data.experimental.assert_cardinality(size))
        batches = batches.map(self._tuple).prefetch(tf.data.AUTOTUNE)
        return batches, np.argsort(order, kind="stable")

    def _tuple(self, batch: Batch) -> Batch | tuple:
        """Splits a batch into the tuple that Keras expects."""
        inputs, target = dict(batch), self._target
        weights = inputs.pop(self._weight.name, None)
        if target is None or target.name not in inputs:
            # () for no targets: replicas cannot share None.
            return inputs if weights is None else (inputs, (), weights)
        y = inputs.pop(target.name)
        if target.is_float:  # [B, 1] as outputs: [B] with [B, 1] makes [B, B]
            y = y[:, tf.newaxis]
        return keras.utils.pack_x_y_sample_weight(inputs, y, weights)


def add_places(data: tf.data.Dataset) -> tf.data.Dataset:
    """Adds `PLACE` and `SHARE` to the inputs of batches."""

    def add(inputs: Mapping[str, tf.Tensor], *rest: Any) -> tuple:
        num_rows = tf.shape(inputs["input_ids"])[0]
        share = tf.fill([num_rows], 1 / tf.cast(num_rows, tf.float32))
        return ({**inputs, PLACE: tf.range(num_rows), SHARE: share}, *rest)

    return data.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def mean_over_batch(losses: tf.Tensor) -> tf.Tensor:
    """Returns this replica's part of the mean of losses, [B], B maybe 0."""
    num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
    num_rows = tf.cast(tf.size(losses), losses.dtype)
    mean = tf.math.divide_no_nan(tf.reduce_sum(losses), num_rows)
    return mean / num_replicas


def weigh_gradient(
    loss: tf.Tensor,
    inputs: Mapping[str, tf.Tensor] | None,
    objective: Any = None,
) -> tf.Tensor:
    """Weighs the gradient of a mean over a replica's rows by their share."""
    means = {"sum_over_batch_size", "mean"}
    objectives = keras.tree.flatten(objective)
    reductions = {getattr(x, "reduction", "mean") for x in objectives}
    if SHARE not in (inputs or ()) or not reductions <= means:
        return loss
    num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
    weight = tf.reduce_sum(inputs[SHARE]) * num_replicas  # 0 without rows
    return loss + (weight - 1) * (loss - tf.stop_gradient(loss))


def first_rows(batches: Iterator, strategy: tf.distribute.Strategy) -> Any:
    """Returns the first replica's rows of the first batch."""
    _, _, distributed = next(iter(batches))
    return keras.tree.map_structure(
        lambda x: strategy.experimental_local_results(x)[0], next(distributed)
    )
