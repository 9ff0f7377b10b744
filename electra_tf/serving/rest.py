"""Requests and answers in JSON, of the shape of TensorFlow Serving's.

    {"instances": ["a text"]}
    {"instances": [{"question": "who?", "context": "..."}],
     "signature_name": "serving_default"}

The answer is {"predictions": [...]}, for each instance an object of its
outputs, or the value of the only output. Differs: columns, `inputs`, are not
read, and instances are answered in batches of `BATCH_SIZE`, sorted by length,
so that memory does not grow with their number.

Source: https://www.tensorflow.org/tfx/serving/api_rest
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (the operations that read text)

from electra_tf.util.errors import UserError, shown

BATCH_SIZE = 64
_DEFAULT = "serving_default"

Instance = dict[str, str]


class TextServer:
    """Answers requests with a SavedModel of texts.

    Args:
      directory: of the SavedModel, as ".../text/1".

    Raises:
      UserError: if there is no SavedModel, or if it reads ids.
    """

    def __init__(self, directory: str) -> None:
        if not pathlib.Path(directory, "saved_model.pb").exists():
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
        if "input_ids" in self._names[_DEFAULT]:
            raise UserError(
                "A SavedModel of texts must be served. Received: "
                f"{directory}, which reads ids. Name the directory `text` "
                "beside it."
            )

    def answer(self, request: Any) -> dict[str, list]:  # noqa: ANN401 (JSON)
        """Answers a request.

        Args:
          request: parsed JSON; see the module.

        Raises:
          UserError: if it has another shape.
        """
        if not isinstance(request, Mapping) or not isinstance(
            request.get("instances"), list
        ):
            raise UserError(
                'A request must be an object with a list "instances". '
                f"Received: {shown(str(request))}."
            )
        signature = request.get("signature_name", _DEFAULT)
        if signature not in [*self._names]:  # which may be unhashable
            raise UserError(
                f'"signature_name" must be one of {", ".join(self._names)}. '
                f"Received: {shown(str(signature))}."
            )
        names = self._names[signature]
        instances = [
            _instance(number, value, names)
            for number, value in enumerate(request["instances"], start=1)
        ]
        return {"predictions": self._predictions(signature, instances)}

    def _predictions(
        self, signature: str, instances: Sequence[Instance]
    ) -> list[Any]:
        sizes = [sum(map(len, x.values())) for x in instances]
        order = np.argsort(sizes, kind="stable")
        found: list[Any] = [None] * len(instances)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            batch = [instances[row] for row in rows]
            inputs = {
                name: tf.constant([_encoded(x[name]) for x in batch])
                for name in batch[0]
            }
            outputs = self._model.signatures[signature](**inputs)
            for row, value in zip(rows, _by_row(outputs), strict=True):
                found[row] = value
        return found


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
        and all(isinstance(text, str) for text in value.values())
    ):
        return dict(value)
    texts = ", ".join(f'"{name}": text' for name in names)
    raise UserError(
        f"Instance {number} must be {{{texts}}}. Received: {shown(str(value))}."
    )


def _encoded(text: str) -> bytes:
    """Returns UTF-8; half a pair of surrogates, which JSON can spell, is ?."""
    return text.encode(errors="replace")


def _by_row(outputs: Mapping[str, tf.Tensor]) -> list[Any]:
    """Returns the outputs of each row as JSON values."""
    columns = {name: _json(value.numpy()) for name, value in outputs.items()}
    if len(columns) == 1:
        return next(iter(columns.values()))
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _json(array: np.ndarray) -> list[Any]:
    if array.dtype != object:
        return array.tolist()
    texts = [text.decode(errors="replace") for text in array.flat]
    return np.array(texts, object).reshape(array.shape).tolist()
