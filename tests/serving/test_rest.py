"""Requests are answered as the SavedModel does, or refused with a reason."""

import json

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.serving import rest, saved_models
from electra_tf.serving.rest import TextServer
from electra_tf.util import storage
from electra_tf.util.errors import UserError


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "1"

    def measure(text):
        size = tf.strings.length(text)
        tail = tf.strings.substr(text, tf.maximum(size - 3, 0), 3 + 0 * size)
        return {"size": size, "tail": tail, "batch": 0 * size + tf.size(text)}

    def join(text):
        return {"twice": tf.strings.join([text, text])}

    endpoints = {"serving_default": measure, "join": join}
    spec = [tf.TensorSpec([None], tf.string, "text")]
    saved_models.write(path, endpoints, spec)
    return TextServer(str(path))


def _ask(server, request):
    return json.loads(json.dumps(server.answer(request)))["predictions"]


def test_instances_are_answered_in_their_order(server):
    texts = ["x" * (i * 7 % 150) for i in range(150)]
    found = _ask(server, {"instances": texts})
    assert [row["size"] for row in found] == list(map(len, texts))
    assert {row["batch"] for row in found} == {rest.BATCH_SIZE, 150 % 64}
    named = [{"text": text} for text in texts]
    assert _ask(server, {"instances": named}) == found


def test_a_single_output_is_answered_without_its_name(server):
    request = {"instances": ["a", "é"], "signature_name": "join"}
    assert _ask(server, request) == ["aa", "éé"]


def test_hostile_texts_are_answered(server):
    texts = ["", "\0", "\ud800", "x" * 2**20, "aé", *["a"] * 5000]
    found = _ask(server, {"instances": texts})
    sizes = [0, 1, 1, 2**20, 3]
    assert [row["size"] for row in found] == sizes + [1] * 5000
    assert _ask(server, {"instances": []}) == []
    last_bytes = _ask(server, {"instances": ["éa\u20ac"]})[0]["tail"]
    assert last_bytes == "\u20ac"
    assert "\ufffd" in _ask(server, {"instances": ["é\u20aca"]})[0]["tail"]


def test_bytes_are_taken_as_they_are(server):
    text = b"a\xff\xe2\x82"  # no UTF-8
    (row,) = server.rows(*server.parse({"instances": [{"text": text}]}))
    assert row["size"] == len(text) and row["tail"].item() == text[-3:]


def test_tensors_of_shorter_rows_are_padded():
    rows = [
        {"score": np.array(size, "f"), "tokens": np.full((size, 2), b"a", "O")}
        for size in (1, 0, 3)
    ]
    found = rest.as_tensors(rows)
    assert found["score"].dtype == np.float32
    assert found["score"].tolist() == [1, 0, 3]
    shown = [[cell[0] for cell in row] for row in found["tokens"]]
    assert found["tokens"].shape == (3, 3, 2)
    assert shown == [[b"a", b"", b""], [b"", b"", b""], [b"a", b"a", b"a"]]
    texts = [{"answer": np.array(text, "O")} for text in (b"a", b"bc")]
    answer = rest.as_tensors(texts)["answer"]
    assert repr(answer.tolist()) == "[b'a', b'bc']"  # no arrays in an array
    assert rest.as_tensors([]) == {}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (None, "an object with a list"),
        ({"instances": "a text"}, "an object with a list"),
        ({"inputs": ["a text"]}, "an object with a list"),
        ({"instances": ["a", 1]}, 'Instance 2 must be {"text": text}.*1'),
        ({"instances": [{"txt": "a"}]}, "Instance 1"),
        ({"instances": [{"text": ["a"]}]}, "Instance 1"),
        (
            {"instances": ["a"], "signature_name": "x"},
            "one of join, serving_default|one of serving_default, join",
        ),
        ({"instances": ["a"], "signature_name": ["x"]}, "must be one of"),
    ],
)
def test_other_requests_are_refused(request_, message, server):
    with pytest.raises(UserError, match=message):
        server.answer(request_)


def test_a_saved_model_in_a_store_is_served():
    path = storage.as_path("ram://test_rest/text/1")
    spec = [tf.TensorSpec([None], tf.string, "text")]
    saved_models.write(path, {"serving_default": lambda x: {"y": x}}, spec)
    assert _ask(TextServer(str(path)), {"instances": ["a"]}) == ["a"]


def test_only_a_saved_model_of_texts_is_served(tmp_path):
    with pytest.raises(UserError, match=r"without saved_model\.pb"):
        TextServer(str(tmp_path))
    spec = [tf.TensorSpec([None, None], tf.int32, "input_ids")]
    saved_models.write(
        tmp_path / "1", {"serving_default": lambda x: {"y": x + 1}}, spec
    )
    with pytest.raises(UserError, match="reads ids"):
        TextServer(str(tmp_path / "1"))
    tf.saved_model.save(tf.Module(), str(tmp_path / "2"))
    with pytest.raises(UserError, match="serving_default.*, with none"):
        TextServer(str(tmp_path / "2"))
