"""A peer of `serving_load.py`: a process with a model and its clients.

    python tools/benchmarks/serving_peers.py PEER '{"directory": ..., ...}'

PEER is a key of `PEERS`; the JSON has the fields of `Setting`. All compute
P(replaced) of the tokens of a text, with the same weights. A worker prints the
versions of its libraries as a line of JSON. Then it answers each line of
standard input with a line of JSON: for {"clients", "seconds"}, it runs that
many clients for that long, and answers with the result of `load`; for
{"num_texts"}, it answers with the "probabilities" of the first texts.

Only our own peers import modules of electra_tf that need packages.
"""

import dataclasses
import http.client
import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import inference_peers
import numpy as np
from inference_peers import Setting, hugging_face
from machine import versions
from peers import (
    Versions,
    answer_requests,
    tensorflow,
    thread_variables,
    worker_arguments,
)

MAX_TOKENS = 512
TEXTS = "texts.json"
SAVED_MODEL = "exported/discriminator/text/1"
_SECONDS_TO_START = 120.0
_ONNX = "discriminator.onnx"
_HEAD_SCALE = 30.0
_NETWORK = "ElectraForPreTraining"

Ask = Callable[[str], Sequence[float]]
"""Text -> P(replaced) of each token, with [CLS] and [SEP]."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """A model that answers requests."""

    versions: Versions = dataclasses.field(default_factory=dict)
    connect: Callable[[], Ask] | None = None
    close: Callable[[], None] = lambda: None
    pid: int = dataclasses.field(default_factory=os.getpid)


def kserve(setting: Setting) -> Peer:
    """Makes our peer behind KServe's server, a separate process, over HTTP."""
    port = _free_port()
    process = _start_server(setting, port)

    def close() -> None:
        process.terminate()
        process.wait()

    found = versions("kserve", "tensorflow")
    return Peer(found, lambda: _http_client(port), close, process.pid)


def saved_model(setting: Setting) -> Peer:
    """Makes our peer as users load it: a SavedModel of texts."""
    tf = tensorflow(setting.threads)
    import tensorflow_text  # noqa: F401 (the operations that read text)

    path = pathlib.Path(setting.directory, SAVED_MODEL)
    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]

    def ask(text: str) -> np.ndarray:
        found = function(text=tf.constant([text]))
        probabilities, mask = (
            found[name].numpy()[0]
            for name in ("probability_replaced", "input_mask")
        )
        return probabilities[mask > 0]

    return Peer(versions("tensorflow"), lambda: ask)


def torch(setting: Setting) -> Peer:
    """Makes a peer of Hugging Face, with fast tokenizer and fused attention."""
    import torch

    torch.set_num_threads(setting.threads)
    tokenize = _tokenizer(setting)
    model = hugging_face(_NETWORK, setting.directory, "sdpa")

    def ask(text: str) -> np.ndarray:
        ids, mask = (torch.from_numpy(x) for x in tokenize(text))
        with torch.inference_mode():
            found = model(input_ids=ids, attention_mask=mask)
            return found.logits.sigmoid().numpy()[0]

    return Peer(versions("torch", "transformers"), lambda: ask)


def onnx(setting: Setting) -> Peer:
    """Makes a peer of ONNX Runtime with the graph that PyTorch exports."""
    tokenize = _tokenizer(setting)
    path = f"{setting.directory}/{_ONNX}"
    run = inference_peers.onnx_session(path, setting.threads)

    def ask(text: str) -> np.ndarray:
        return 1 / (1 + np.exp(-run(*tokenize(text))[0]))

    return Peer(versions("onnxruntime"), lambda: ask)


def torch_files(setting: Setting) -> Peer:
    """Writes the network that all other peers load."""
    import transformers

    kind = getattr(transformers, _NETWORK)
    sizes = setting.sizes | {"max_position_embeddings": MAX_TOKENS}
    inference_peers.save_random(kind, sizes, setting.directory)
    model = kind.from_pretrained(setting.directory)
    # With random weights P(replaced) is near 0.5 for all tokens.
    model.discriminator_predictions.dense_prediction.weight.data *= _HEAD_SCALE
    model.save_pretrained(setting.directory)
    return Peer()


def onnx_files(setting: Setting) -> Peer:
    """Writes the ONNX graph of the network."""
    model = hugging_face(_NETWORK, setting.directory, "eager")
    inference_peers.write_onnx(model, "logits", f"{setting.directory}/{_ONNX}")
    return Peer()


def saved_model_files(setting: Setting) -> Peer:
    """Writes our SavedModel of the network."""
    from electra_tf.serving import checkpoint_export

    root = pathlib.Path(setting.directory, SAVED_MODEL).parents[2]
    checkpoint_export.export(setting.directory, root, threshold=0.5)
    return Peer()


PEERS = {
    function.__name__: function
    for function in (
        kserve,
        saved_model,
        torch,
        onnx,
        torch_files,
        onnx_files,
        saved_model_files,
    )
}


def load(
    connect: Callable[[], Ask],
    texts: Sequence[str],
    num_clients: int,
    seconds: float,
) -> dict[str, Any]:
    """Runs concurrent clients, each of which sends one text after another."""
    barrier = threading.Barrier(num_clients)

    def client(number: int) -> tuple[list[float], float, float]:
        ask, latencies = connect(), []
        first = number * len(texts) // num_clients
        barrier.wait()
        texts_to_send = itertools.cycle([*texts[first:], *texts[:first]])
        begin = now = time.perf_counter()
        while not latencies or now - begin < seconds:
            start = now
            ask(next(texts_to_send))
            now = time.perf_counter()
            latencies.append(now - start)
        return latencies, begin, now

    with futures.ThreadPoolExecutor(num_clients) as pool:
        found = list(pool.map(client, range(num_clients)))
    latencies, begins, ends = zip(*found, strict=True)
    return {
        "latencies": list(itertools.chain(*latencies)),
        "seconds": max(ends) - min(begins),
    }


def _tokenizer(setting: Setting) -> Callable[[str], list[np.ndarray]]:
    """Returns Hugging Face's tokenizer: text -> ids and mask, int64 [1, L]."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(setting.directory)

    def tokenize(text: str) -> list[np.ndarray]:
        found = tokenizer(
            [text],
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="np",
        )
        return [found["input_ids"], found["attention_mask"]]

    return tokenize


def _http_client(port: int) -> Ask:
    """Returns a client with a persistent connection, as a browser has."""
    connection = http.client.HTTPConnection("localhost", port)
    headers = {"Content-Type": "application/json"}
    path = "/v1/models/electra:predict"

    def ask(text: str) -> list[float]:
        body = json.dumps({"instances": [text]})
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {content.decode()}")
        (row,) = json.loads(content)["predictions"]
        return row["probability_replaced"][: sum(row["input_mask"])]

    return ask


def _start_server(setting: Setting, port: int) -> subprocess.Popen:
    """Starts a server, and waits until it is ready."""
    path = str(pathlib.Path(setting.directory, SAVED_MODEL))
    code = (
        "from electra_tf.serving import kserve_model; "
        f"kserve_model.serve({path!r}, port={port})"
    )
    log = pathlib.Path(setting.directory, "kserve.log")
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=os.environ | thread_variables(setting.threads),
            stdout=output,
            stderr=output,
        )
    try:
        _wait_until_ready(process, port, log)
    except BaseException:
        process.terminate()
        raise
    return process


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def _wait_until_ready(
    process: subprocess.Popen, port: int, log: pathlib.Path
) -> None:
    """Waits until a server is ready; fails with its log if it never is."""
    end = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
        connection = http.client.HTTPConnection("localhost", port)
        try:
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            pass  # not yet
        finally:
            connection.close()
    raise RuntimeError(
        f"KServe's server did not start: {log.read_text()[-4000:]}"
    )


def main(name: str, setting: Setting) -> None:
    """Makes a peer, and answers requests until the input ends."""
    path = pathlib.Path(setting.directory, TEXTS)
    texts = json.loads(path.read_text("utf-8"))
    peer = PEERS[name](setting)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "num_texts" in request:
            ask, first = peer.connect(), texts[: request["num_texts"]]
            return {"probabilities": [list(map(float, ask(x))) for x in first]}
        return load(peer.connect, texts, request["clients"], request["seconds"])

    try:
        answer_requests(peer.versions, answer)
    finally:
        peer.close()


if __name__ == "__main__":
    main(*worker_arguments(__doc__, Setting, peer=PEERS))
