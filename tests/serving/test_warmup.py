"""Warm-up requests are parsed by messages with the expected fields."""

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework.tensor_pb2 import TensorProto

from electra_tf.serving import warmup

# Message -> fields: name, number, type. Of tensorflow_serving/apis.
MESSAGES = {
    "PredictionLog": [("predict_log", 6, "PredictLog")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictRequest": [("model_spec", 1, "ModelSpec"), ("inputs", 2, "Input")],
    "ModelSpec": [("name", 1, ""), ("signature_name", 3, "")],
    "Input": [("key", 1, ""), ("value", 2, "")],
}


@pytest.fixture(scope="module")
def prediction_log():
    file = descriptor_pb2.FileDescriptorProto(
        name="requests.proto", package="requests", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number)
            is_list = field == "inputs"
            added.label = (
                kinds.LABEL_REPEATED if is_list else kinds.LABEL_OPTIONAL
            )
            added.type = kinds.TYPE_MESSAGE if kind else kinds.TYPE_BYTES
            if kind:
                added.type_name = f".requests.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("requests.PredictionLog")
    return message_factory.GetMessageClass(found)


def test_requests_match_the_signatures(tmp_path, prediction_log):
    spec = [
        tf.TensorSpec([None], tf.string, "text"),
        tf.TensorSpec([None, 300], tf.float32, "x"),
    ]
    warmup.write(tmp_path, ["serving_default", "encode"], spec)
    path = tmp_path / "assets.extra/tf_serving_warmup_requests"
    names = []
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log.FromString(record.numpy())
        assert log.SerializeToString() == record.numpy()
        request = log.predict_log.request
        names.append(request.model_spec.signature_name.decode())
        tensors = {
            x.key.decode(): tf.make_ndarray(TensorProto.FromString(x.value))
            for x in request.inputs
        }
        assert tensors["text"].shape == (1,)
        assert tensors["text"].dtype == object
        assert tensors["x"].shape == (1, 300)  # over one byte of length
        assert tensors["x"].dtype == "float32"
    assert names == ["serving_default", "encode"]


def test_requests_are_parsed_by_tensorflow_serving(tmp_path):
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    spec = [tf.TensorSpec([None], tf.string, "text")]
    warmup.write(tmp_path, ["encode"], spec)
    (record,) = tf.data.TFRecordDataset(str(tmp_path / warmup.PATH))
    request = apis.PredictionLog.FromString(record.numpy()).predict_log.request
    assert request.model_spec.signature_name == "encode"
    assert tf.make_ndarray(request.inputs["text"]).shape == (1,)
