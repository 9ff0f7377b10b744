"""Checks of what users pass to `fit` and `predict`: texts, pairs and labels."""

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.util.errors import UserError, shorten_repr

Texts = Sequence[str] | Sequence[tuple[str, str]] | tuple[Sequence[str], ...]
"""Texts; or pairs, as a sequence of tuples, or as a tuple of two sequences."""
Columns = list[list[str]]
"""A list of texts, or two of the same length."""


def columns_of(texts: Texts) -> Columns:
    """Checks texts or pairs, and returns them as one or two columns."""
    if isinstance(texts, tf.Tensor) and texts.dtype == tf.string:
        texts = _decoded(texts.numpy())
    check_sequence(texts, "Texts must be a sequence of strings or of pairs")
    if not len(texts):
        raise UserError("There must be texts. Received: none.")
    columns = [list(texts)]
    if not isinstance(columns[0][0], str | bytes):
        # A tuple of two sequences holds two columns, any other sequence pairs.
        is_split = isinstance(texts, tuple) and len(texts) == 2
        columns = (
            list(map(list, texts)) if is_split else _pair_columns(columns[0])
        )
    if len({len(column) for column in columns}) > 1:
        raise UserError(
            "Pairs must have as many first as second texts. Received: "
            f"{' and '.join(str(len(column)) for column in columns)} texts."
        )
    for column in columns:
        for number, text in enumerate(column):
            if not isinstance(text, str):
                is_bytes = isinstance(text, bytes)
                way_out = " Decode it: text.decode()." * is_bytes
                raise UserError(
                    "Texts must be strings. Received: "
                    f"{shorten_repr(text)} at {number}.{way_out}"
                )
    return columns


def _decoded(texts: np.ndarray | bytes) -> np.ndarray:
    """Decodes the strings of a tensor."""
    try:
        return np.char.decode(np.asarray(texts).astype(bytes), "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"Texts must be in UTF-8. Received: {shorten_repr(error.object)}."
        ) from error


def check_sequence(values: object, expected: str) -> None:
    """Refuses a string, a table, or an object without a length."""
    way_out = ""
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        way_out = ' Give a column: x["text"], or (x["a"], x["b"]) for pairs.'
    elif isinstance(values, keras.utils.PyDataset | Iterator):
        way_out = " Give lists, or tf.data.Dataset.from_generator."
    has_length = hasattr(values, "__len__") and getattr(values, "ndim", 1)
    if way_out or isinstance(values, str) or not has_length:
        received = type(values).__name__ if way_out else shorten_repr(values)
        raise UserError(f"{expected}. Received: {received}.{way_out}")


def check_count(values: Sequence, count: int, what: str, inputs: str) -> None:
    """Checks that there is one value for each input."""
    if len(values) != count:
        raise UserError(
            f"There must be one {what} for each of {count} {inputs}. "
            f"Received: {len(values)}."
        )


class Labels:
    """The classes of a head: their numbers, and their labels if they have
    any."""

    def __init__(self, count: int | None, labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        for label in self.labels:
            if not isinstance(label, str):
                raise UserError(
                    f"Labels must be strings. Received: {label!r}. Give "
                    "num_classes (of a tagger num_tags) instead where classes "
                    "are numbers from 0."
                )
        self.count = len(self.labels) if count is None else count
        if not isinstance(self.count, numbers.Integral):
            raise UserError(
                "The number of classes must be an integer. Received: "
                f"{count!r}. Name the classes with labels=."
            )
        self._numbers = {name: i for i, name in enumerate(self.labels)}
        if len(self._numbers) < len(self.labels):
            raise UserError(
                f"Labels must be unique. Received: {', '.join(self.labels)}."
            )
        if self.labels and self.count != len(self.labels) or self.count < 1:
            raise UserError(
                "There must be at least one class, and one label for each if "
                f"labels are given. Received: {self.count} classes, "
                f"{len(self.labels)} labels. To load a trained head, use "
                "`from_finetuned`."
            )

    def number(self, label: str | int, place: str) -> int:
        """Returns the number of a class."""
        if isinstance(label, str):
            if label in self._numbers:
                return self._numbers[label]
        elif isinstance(label, numbers.Real) and label in range(self.count):
            self._check_meaning(int(label), place)
            return int(label)
        known = f"from 0 to {self.count - 1}"
        if self.labels:
            known += f", or one of {', '.join(self.labels)}"
        way_out = ""
        if isinstance(label, bytes):
            way_out = " Decode it: label.decode()."
        elif isinstance(label, list) and len(label) == self.count:
            way_out = " Give the number of the class: np.argmax(y, -1)."
        raise UserError(
            f"A label must be {known}. Received: {shorten_repr(label)} at "
            f"{place}.{way_out}"
        )

    def _check_meaning(self, number: int, place: str) -> None:
        """Refuses a number that is the label of another class."""
        labels = self.labels
        if str(number) in self._numbers and str(number) != labels[number]:
            raise UserError(
                f"A label must be one of {', '.join(labels)}, as a string. "
                f"Received: the number {number} at {place}, which may be "
                f"{number!r} or {labels[number]!r}. Give str(y) of each."
            )

    def name(self, number: int) -> str | int:
        """Returns the label of a class; its number if it has none."""
        return self.labels[number] if self.labels else int(number)

    def factors(self, class_weight: Mapping[Any, float]) -> np.ndarray:
        """Returns the weight of each class, float [C]."""
        factors = np.ones(self.count)
        for label, factor in class_weight.items():
            factors[self.number(label, "class_weight")] = factor
        return factors


def _pair_columns(pairs: Sequence[Sequence[str]]) -> Columns:
    for number, pair in enumerate(pairs):
        has_two = hasattr(pair, "__len__") and len(pair) == 2
        if isinstance(pair, str | bytes) or not has_two:
            raise UserError(
                "Texts must be strings, or each a pair of strings. Received: "
                f"{shorten_repr(pair)} at {number}."
            )
    return [list(column) for column in zip(*pairs, strict=True)]
