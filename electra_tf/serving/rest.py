"""Requests and answers in the JSON format of TensorFlow Serving.

    {"instances": ["a text"]}
    {"instances": [{"question": "who?", "context": "..."}],
     "signature_name": "serving_default"}

The answer is {"predictions": [...]}, for each instance an object of its
outputs, or the value of the only output. Differs: the columnar format,
`inputs`, is not read, and instances are answered in batches of `BATCH_SIZE`,
sorted by length, so that memory does not grow with their number.

Source: https://www.tensorflow.org/tfx/serving/api_rest
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (the operations that read text)

from electra_tf.util import storage
from electra_tf.util.errors import UserError, shorten_repr

BATCH_SIZE = 64
_DEFAULT = "serving_default"

Instance = dict[str, str | bytes]
"""Name of an input -> its text; bytes, not from JSON, are taken as is."""
Row = dict[str, np.ndarray]
"""Name of an output -> its value for an instance, without the axis B."""


class Request(NamedTuple):
    """A valid request."""

    signature: str
    instances: list[Instance]


class TextServer:
    """Answers requests with a SavedModel of texts."""

    def __init__(self, directory: str) -> None:
        if not storage.exists(storage.as_path(directory) / "saved_model.pb"):
            raise UserError(
                "`directory` must hold a SavedModel, as .../text/1. Received: "
                f"{directory}, without saved_model.pb. Export one with "
                "electra_tf.export_saved_model."
            )
        self._model = tf.saved_model.load(directory)
        self._names = {
            name: sorted(function.structured_input_signature[1])
            for name, function in self._model.signatures.items()
        }
        if _DEFAULT not in self._names:
            raise UserError(
                f"A SavedModel must have the signature {_DEFAULT}. Received: "
                f"{directory}, with {', '.join(self._names) or 'none'}. Export "
                "one with electra_tf.export_saved_model."
            )
        if "input_ids" in self._names[_DEFAULT]:
            raise UserError(
                "A SavedModel of texts must be served. Received: "
                f"{directory}, which reads ids. Name the directory `text` "
                "next to it."
            )

    def answer(self, request: Any) -> dict[str, list]:  # noqa: ANN401 (JSON)
        """Answers a request."""
        return as_json(self.rows(*self.parse(request)))

    def parse(self, request: Any) -> Request:  # noqa: ANN401 (JSON)
        """Checks and parses a request."""
        if not isinstance(request, Mapping) or not isinstance(
            request.get("instances"), list
        ):
            raise UserError(
                'A request must be an object with a list "instances". '
                f"Received: {shorten_repr(str(request))}."
            )
        signature = request.get("signature_name", _DEFAULT)
        if signature not in [*self._names]:  # which may be unhashable
            raise UserError(
                f'"signature_name" must be one of {", ".join(self._names)}. '
                f"Received: {shorten_repr(str(signature))}."
            )
        names = self._names[signature]
        instances = [
            _instance(number, value, names)
            for number, value in enumerate(request["instances"], start=1)
        ]
        return Request(signature, instances)

    def rows(self, signature: str, instances: Sequence[Instance]) -> list[Row]:
        """Answers instances, in their order."""
        sizes = [sum(map(len, x.values())) for x in instances]
        order = np.argsort(sizes, kind="stable")
        found: list[Any] = [None] * len(instances)
        for start in range(0, len(order), BATCH_SIZE):
            places = order[start : start + BATCH_SIZE]
            batch = [instances[place] for place in places]
            inputs = {
                name: tf.constant([_encoded(x[name]) for x in batch])
                for name in batch[0]
            }
            outputs = self._model.signatures[signature](**inputs)
            for place, row in zip(places, _by_row(outputs), strict=True):
                found[place] = row
        return found


def as_json(rows: Sequence[Row]) -> dict[str, list]:
    """Returns the answer in JSON values."""
    values = [{name: _json(x) for name, x in row.items()} for row in rows]
    return {
        "predictions": [
            next(iter(x.values())) if len(x) == 1 else x for x in values
        ]
    }


def as_tensors(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Returns the answer as tensors.

    Shapes: returns [B, ...].
    """
    names = rows[0] if rows else ()
    return {name: _padded_stack([row[name] for row in rows]) for name in names}


def _instance(
    number: int,
    value: Any,  # noqa: ANN401 (JSON)
    names: Sequence[str],
) -> Instance:
    """Returns the texts of an instance by their names."""
    if isinstance(value, str) and len(names) == 1:
        return {names[0]: value}
    if (
        isinstance(value, Mapping)
        and sorted(value) == names
        and all(isinstance(text, str | bytes) for text in value.values())
    ):
        return dict(value)
    texts = ", ".join(f'"{name}": text' for name in names)
    raise UserError(
        f"Instance {number} must be {{{texts}}}. Received: "
        f"{shorten_repr(str(value))}."
    )


def _encoded(text: str | bytes) -> bytes:
    """Returns UTF-8; a lone surrogate, which JSON can spell, becomes "?"."""
    if isinstance(text, bytes):
        return text
    return text.encode(errors="replace")


def _by_row(outputs: Mapping[str, tf.Tensor]) -> list[Row]:
    columns = {name: value.numpy() for name, value in outputs.items()}
    num_rows = len(next(iter(columns.values())))
    return [
        {name: column[i, ...] for name, column in columns.items()}
        for i in range(num_rows)
    ]


def _json(array: np.ndarray) -> Any:  # noqa: ANN401 (JSON)
    if array.dtype != object:
        return array.tolist()
    texts = [text.decode(errors="replace") for text in array.flat]
    return np.array(texts, object).reshape(array.shape).tolist()


def _padded_stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stacks arrays of different sizes."""
    first = arrays[0]
    sizes = np.max([x.shape for x in arrays], axis=0).astype(int)
    empty = b"" if first.dtype == object else 0
    stacked = np.full((len(arrays), *sizes), empty, first.dtype)
    for row, array in enumerate(arrays):
        stacked[row, *map(slice, array.shape), ...] = array
    return stacked
