"""Classes by their numbers or their labels."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from electra_tf.util.errors import UserError, shown


class Labels:
    """The classes of a head.

    Args:
      count: of them, C; None for one for each label.
      labels: in the order of the logits; none for numbers alone.

    Raises:
      UserError: if neither is given, or they do not fit.
    """

    def __init__(self, count: int | None, labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        for label in self.labels:
            if not isinstance(label, str):
                raise UserError(
                    f"Labels must be strings. Received: {label!r}. Give "
                    "num_classes in their place where classes are numbers "
                    "from 0."
                )
        self.count = len(self.labels) if count is None else count
        if len({*self.labels}) < len(self.labels):
            raise UserError(
                "Each label must be there once. Received: "
                f"{', '.join(self.labels)}."
            )
        if self.labels and self.count != len(self.labels) or self.count < 1:
            raise UserError(
                "There must be a number of classes, or a label for each. "
                f"Received: {count} classes, {len(self.labels)} labels. A "
                "model whose head is trained comes from `from_finetuned`."
            )

    def number(self, label: str | int, place: str) -> int:
        """Returns the number of a class.

        Args:
          label: a label, or the number itself, where that is not another's
            label.
          place: of it, for messages.

        Raises:
          UserError: if there is no such class.
        """
        if isinstance(label, str):
            if label in self.labels:
                return self.labels.index(label)
        elif isinstance(label, numbers.Real) and label in range(self.count):
            self._check_meaning(int(label), place)
            return int(label)
        known = f"from 0 to {self.count - 1}"
        if self.labels:
            known += f", or one of {', '.join(self.labels)}"
        raise UserError(
            f"A label must be {known}. Received: {shown(label)} at {place}."
            + self._way_out(label)
        )

    def _way_out(self, label: Any) -> str:  # noqa: ANN401
        """Says what to do where it is plain what a label should be."""
        if isinstance(label, bytes):
            return " Decode it: label.decode()."
        if isinstance(label, list) and len(label) == self.count:
            return " Give the number of the class: np.argmax(y, -1)."
        return ""

    def _check_meaning(self, number: int, place: str) -> None:
        """Refuses a number that is the label of another class."""
        if self.labels and str(number) in {*self.labels} - {
            self.labels[number]
        }:
            raise UserError(
                f"A label must be one of {', '.join(self.labels)}, as a "
                f"string. Received: the number {number} at {place}, which "
                f"may be {number!r} or {self.labels[number]!r}. Give str(y) "
                "of each."
            )

    def name(self, number: int) -> str | int:
        """Returns the label of a class; its number if it has none."""
        return self.labels[number] if self.labels else int(number)

    def factors(self, class_weight: Mapping[Any, float]) -> np.ndarray:
        """Returns how much each class counts, float [C].

        Args:
          class_weight: number or label -> factor, 1 where absent.

        Raises:
          UserError: if there is no such class.
        """
        factors = np.ones(self.count)
        for label, factor in class_weight.items():
            factors[self.number(label, "class_weight")] = factor
        return factors
