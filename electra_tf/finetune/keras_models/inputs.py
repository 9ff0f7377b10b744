"""What users pass to `fit` and `predict`: texts, pairs, labels; and batches."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.features import Batch, Features
from electra_tf.finetune.task import Row
from electra_tf.util.errors import UserError

Texts = Sequence[str] | Sequence[tuple[str, str]] | tuple[Sequence[str], ...]
"""Texts; or pairs, as a sequence of tuples, or as a tuple of two sequences."""
SAMPLE_WEIGHT = FeatureSpec("sample_weight", is_float=True)


def columns_of(texts: Texts) -> list[list[str]]:
    """Returns texts as one column, pairs as two."""
    if isinstance(texts, str | Mapping):  # iterated by letter or by key
        raise TypeError(f"Texts are a sequence of strings, not {texts!r:.80}.")
    if isinstance(texts, tf.Tensor):
        texts = [text.decode() for text in texts.numpy().tolist()]
    first = next(iter(texts), "")
    if isinstance(first, str):
        columns = [list(texts)]
    elif not isinstance(texts, tuple):
        columns = [list(column) for column in zip(*texts, strict=True)]
    elif len(texts) == 2 and all(
        len(part) == 2 and isinstance(part, tuple) for part in texts
    ):
        raise UserError(
            "A tuple of two pairs could be two columns: give a list of pairs."
        )
    else:
        columns = [list(column) for column in texts]
    if len({len(column) for column in columns}) > 1 or len(columns) > 2:
        raise ValueError("Texts are one column, or two of one length.")
    for text in (text for column in columns for text in column):
        if not isinstance(text, str):  # str(None) would be read as a word
            raise TypeError(f"A text is a string, not {text!r:.80}.")
    return columns


class Labels:
    """The classes of a head: their numbers, and their labels if they have
    any."""

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
        targets: Sequence[FeatureSpec],
        weight: FeatureSpec,
    ) -> None:
        specs = [x for x in (*inputs, *targets, weight) if x.name in rows[0]]
        self.features = Features(rows, specs)
        self._targets = [spec for spec in targets if spec in specs]
        self._weight = weight.name

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
        inputs = dict(batch)
        y = [_target(spec, inputs.pop(spec.name)) for spec in self._targets]
        weights = inputs.pop(self._weight, None)
        if not y:
            # () for no targets: replicas cannot share None.
            return inputs if weights is None else (inputs, (), weights)
        return keras.utils.pack_x_y_sample_weight(inputs, y[0], weights)


def _target(spec: FeatureSpec, values: tf.Tensor) -> tf.Tensor:
    """Returns values as [B, 1], like outputs: [B] with [B, 1] makes [B, B]."""
    is_value = spec.is_float and not spec.is_sequence
    return values[:, tf.newaxis] if is_value else values
