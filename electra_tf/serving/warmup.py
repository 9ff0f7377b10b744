"""Warm-up requests, which TensorFlow Serving runs when it loads a model.

The first request to a graph is slow, as TensorFlow optimizes the graph. The
requests are TFRecords of the message PredictionLog; so few of its fields are
needed that they are encoded here by hand.

Source: prediction_log.proto, predict.proto and model.proto in
tensorflow_serving/apis, for the numbers of the fields.
"""

import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from electra_tf.data.record_format import header

PATH = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")

_TEXT = b"A request before the first one."
_PREDICT_LOG = 6  # of PredictionLog
_REQUEST = 1  # of PredictLog
_MODEL, _INPUTS = 1, 2  # of PredictRequest
_SIGNATURE = 3  # of ModelSpec
_KEY, _VALUE = 1, 2  # of an entry of a map


def write(
    directory: pathlib.Path,
    signatures: Iterable[str],
    spec: Sequence[tf.TensorSpec],
) -> None:
    """Writes a request for each signature."""
    path = directory / PATH
    path.parent.mkdir()
    inputs = {x.name: tf.make_tensor_proto(_example(x)) for x in spec}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name in signatures:
            writer.write(_prediction_log(name, inputs))


def _example(spec: tf.TensorSpec) -> np.ndarray:
    shape = [size or 1 for size in spec.shape]
    if spec.dtype == tf.string:
        return np.full(shape, _TEXT, object)
    return np.ones(shape, spec.dtype.as_numpy_dtype)


def _prediction_log(signature: str, inputs: Mapping[str, TensorProto]) -> bytes:
    request = _field(_MODEL, _field(_SIGNATURE, signature.encode()))
    for name, value in inputs.items():
        key = _field(_KEY, name.encode())
        entry = key + _field(_VALUE, value.SerializeToString())
        request += _field(_INPUTS, entry)
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of a message: its tag, its length, its content."""
    return header(number, len(content)) + content
