"""Clients that do not use electra_tf get answers from SavedModels."""

import ast
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent import futures

import numpy as np
import pytest
import tiny_finetuning as tiny
from launch_local import free_ports

from electra_tf.finetune import export
from electra_tf.finetune.predictor import Predictor

pytestmark = pytest.mark.slow

QUESTION, CONTEXT = "the plot", "It was a  good film, the caf\u00e9 is bad."


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Returns the path of a question-answering SavedModel, and its answer."""
    root = tmp_path_factory.mktemp("qa")
    qa_task = tiny.task(
        "squad",
        max_query_length=8,
        doc_stride=8,
        qa_na_threshold=1e3,
        metadata={},
    )
    predictor = Predictor(tiny.write_trained(root / "model", qa_task))
    path, _ = export.export(predictor, root)
    (answer,) = predictor([(QUESTION, CONTEXT)])
    assert answer["prediction"]
    return path, answer["prediction"]


def test_a_fresh_process_of_tensorflow_answers_questions(served):
    path, expected = served
    code = f"""
import sys
sys.modules["electra_tf"] = None
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load({str(path)!r})
found = model.signatures["serving_default"](
    question=tf.constant([{QUESTION!r}]), context=tf.constant([{CONTEXT!r}])
)
start, end = (found[x].numpy()[0] for x in ("start_char", "end_char"))
print(ascii([found["answer"].numpy()[0].decode(), {CONTEXT!r}[start:end]]))
"""
    found = subprocess.run(
        [sys.executable, "-I", "-c", code],
        capture_output=True,
        check=True,
        text=True,
    )
    answer, text = ast.literal_eval(found.stdout)
    assert answer == expected == " ".join(text.split())


def test_saved_model_cli_answers_questions(served):
    path, expected = served
    code = (
        "import tensorflow_text; from tensorflow.python.tools import "
        "saved_model_cli as cli; cli.main()"
    )
    inputs = f"question=[{QUESTION!r}];context=[{CONTEXT!r}]"
    found = subprocess.run(
        [
            *(sys.executable, "-c", code, "run", f"--dir={path}"),
            *("--tag_set=serve", "--signature_def=serving_default"),
            f"--input_exprs={inputs}",
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    assert repr(expected.encode()) in found.stdout


@pytest.fixture(scope="module")
def ports(served):
    """Starts a KServe server of the model; yields its HTTP and gRPC ports."""
    pytest.importorskip("kserve")
    http, grpc = free_ports(2)
    code = (
        "from electra_tf.serving import kserve_model; kserve_model.serve("
        f"{str(served[0])!r}, port={http}, grpc_port={grpc})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ)
    try:
        for _ in range(240):
            time.sleep(0.5)
            assert process.poll() is None
            if _status(f"http://localhost:{http}/v2/health/ready") == 200:
                break
        yield http, grpc
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def address(ports):
    return f"http://localhost:{ports[0]}"


def _status(url, content=None):
    try:
        return _send(url, content)[0]
    except OSError:
        return None


def _send(url, content=None):
    """Sends a request; returns status and body of the answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, content, headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_server_answers_and_stays_up(served, address):
    url = f"{address}/v1/models/electra:predict"
    instance = {"question": QUESTION, "context": CONTEXT}

    def ask(instances):
        content = json.dumps({"instances": instances}).encode()
        status, body = _send(url, content)
        assert status == 200, body
        return json.loads(body)["predictions"]

    assert ask([instance])[0]["answer"] == served[1]
    assert ask([]) == []
    hostile = [
        {"question": "", "context": ""},
        {"question": "\0", "context": "\0 \uffff"},
        {"question": "it", "context": "a film " * 5000},
        {"question": "it", "context": "x" * 2**20},
    ]
    assert len(ask(hostile)) == len(hostile)
    assert len(ask([instance] * 3000)) == 3000
    surrogate = b'{"instances": [{"question": "\\ud800", "context": ""}]}'
    for content in (
        *(b"\xff\xfe{", b"{", b"[]", surrogate),
        b'{"instances": [1]}',
    ):
        status, body = _send(url, content)
        assert 400 <= status < 500, (content, status, body)
    assert ask([instance])[0]["answer"] == served[1]


def test_clients_at_once_are_each_given_their_own_answer(address):
    url = f"{address}/v1/models/electra:predict"

    def ask(instance):
        status, body = _send(
            url, json.dumps({"instances": [instance]}).encode()
        )
        assert status == 200, body
        (found,) = json.loads(body)["predictions"]
        return found

    words = CONTEXT.split()
    instances = [
        {"question": QUESTION, "context": " ".join(words[i:] + words[:i])}
        for i in range(len(words))
    ]
    alone = [ask(instance) for instance in instances]
    assert len({found["answer"] for found in alone}) > 1
    with futures.ThreadPoolExecutor(12) as clients:
        together = list(clients.map(ask, instances * 6))
    for found, expected in zip(together, alone * 6, strict=True):
        assert found["answer"] == expected["answer"]
        assert found["start_byte"] == expected["start_byte"]
        assert found["score"] == pytest.approx(expected["score"], rel=1e-4)


def test_the_open_inference_protocol_answers_over_http(served, address):
    url = f"{address}/v2/models/electra/infer"

    def ask(*inputs):
        content = json.dumps({"inputs": list(inputs)}).encode()
        status, body = _send(url, content)
        return status, json.loads(body)

    def texts(name, *values):
        shape = [len(values)]
        tensor = {"name": name, "shape": shape, "datatype": "BYTES"}
        return tensor | {"data": values}

    status, body = ask(
        texts("question", QUESTION, ""), texts("context", CONTEXT, "")
    )
    assert status == 200, body
    (found,) = [x for x in body["outputs"] if x["name"] == "answer"]
    assert found["datatype"] == "BYTES" and found["shape"] == [2]
    assert found["data"] == [served[1], ""]
    question = texts("question", QUESTION)
    for inputs in (
        [question],
        [question, texts("context", CONTEXT, CONTEXT)],
        [question, texts("context", 1)],
        [question, texts("context", CONTEXT) | {"shape": [2]}],
        [question, texts("context", CONTEXT) | {"shape": [1, 1]}],
        [question, texts("context", 1) | {"datatype": "INT32"}],
    ):
        status, body = ask(*inputs)
        assert (status, *inputs) == (400, *inputs), body


def test_the_open_inference_protocol_answers_over_grpc(served, ports):
    import grpc
    import kserve

    def texts(name, *values):
        tensor = kserve.InferInput(name, [len(values)], "BYTES")
        tensor.set_data_from_numpy(np.array(values, object))
        return tensor

    async def ask(*inputs):
        client = kserve.InferenceGRPCClient(f"localhost:{ports[1]}")
        try:
            request = kserve.InferRequest("electra", list(inputs))
            return await client.infer(request)
        finally:
            await client.close()

    context = texts("context", CONTEXT.encode(), b"\xff\xfe")
    answer = asyncio.run(ask(texts("question", b"the plot", b""), context))
    found = {tensor.name: tensor.as_numpy() for tensor in answer.outputs}
    assert found["answer"].tolist()[0].decode() == served[1]
    assert found["score"].dtype == np.float32 and found["score"].shape == (2,)
    with pytest.raises(grpc.RpcError) as refused:
        asyncio.run(ask(context))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "Instance 1 must be" in refused.value.details()
