"""Programs that know nothing of electra_tf ask SavedModels."""

import ast
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import export
from electra_tf.finetune.predictor import Predictor

pytestmark = pytest.mark.slow

QUESTION, CONTEXT = "the plot", "It was a  good film, the caf\u00e9 is bad."


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Returns a SavedModel that answers questions, and an answer of it."""
    root = tmp_path_factory.mktemp("qa")
    learnt = tiny.task(
        "squad",
        max_query_length=8,
        doc_stride=8,
        qa_na_threshold=1e3,
        metadata={},
    )
    predictor = Predictor(tiny.write_trained(root / "model", learnt))
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


def test_the_command_line_answers_questions(served):
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
def address(served):
    """Returns the address of a KServe server of the model."""
    pytest.importorskip("kserve")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    code = (
        "from electra_tf.serving import kserve_model; "
        f"kserve_model.serve({str(served[0])!r}, port={port})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ)
    address = f"http://localhost:{port}"
    try:
        for _ in range(240):
            time.sleep(0.5)
            assert process.poll() is None
            if _status(f"{address}/v2/health/ready") == 200:
                break
        yield address
    finally:
        process.terminate()
        process.wait()


def _status(url, content=None):
    try:
        return _send(url, content)[0]
    except OSError:
        return None


def _send(url, content=None):
    """Returns status and body of an answer."""
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
