"""A peer of `inference.py`: a process that encodes on request.

    python tools/benchmarks/inference_peers.py PEER '{"directory": ..., ...}'

PEER is a key of `PEERS`; the JSON has the fields of `Setting`. A worker prints
the versions of its libraries as a line of JSON. Then it reads requests from
standard input, one JSON line each: {"shape", "count", "output"}. It encodes a
batch of the shape [B, L] `count` times, answers with the seconds of one call,
and writes the states to the .npy file `output`, if that is not empty.

Only our own peers import modules of electra_tf that need packages, so that the
other environments need not hold them.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import versions
from peers import (
    Versions,
    answer_requests,
    random_rows,
    tensorflow,
    worker_arguments,
)

_NAMES = ("input_ids", "input_mask", "segment_ids")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """What a worker runs."""

    directory: str
    sizes: dict[str, int]
    threads: int


@dataclasses.dataclass(frozen=True)
class Peer:
    """An encoder.

    Shapes: encode [B, L].
    """

    versions: Versions
    encode: Callable[[np.ndarray, np.ndarray], Any]


def saved_model(setting: Setting) -> Peer:
    """Makes our peer as users serve it: a SavedModel loaded by TensorFlow."""
    tf, path = _exported(setting, "saved_model")
    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        tensors = map(tf.constant, _inputs(ids, mask))
        named = dict(zip(_NAMES, tensors, strict=True))
        return function(**named)["states"].numpy()

    return Peer(versions("tensorflow"), run)


def exported_onnx(setting: Setting) -> Peer:
    """Makes a peer of ONNX Runtime with the graph of our SavedModel."""
    from electra_tf.serving import portable

    _, path = _exported(setting, "exported_onnx")
    portable.convert(path, ["onnx"])
    return _onnx(setting, "exported_onnx/onnx/model.onnx")


def exported_tflite(setting: Setting) -> Peer:
    """Makes a peer of LiteRT with the graph of our SavedModel."""
    from ai_edge_litert.interpreter import Interpreter

    from electra_tf.serving import portable

    _, path = _exported(setting, "exported_tflite")
    (place,) = portable.convert(path, ["tflite"])
    interpreter = Interpreter(str(place), num_threads=setting.threads)
    runner = interpreter.get_signature_runner()

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        named = dict(zip(_NAMES, _inputs(ids, mask), strict=True))
        return runner(**named)["states"]

    return Peer(versions("ai-edge-litert"), run)


def predict(setting: Setting) -> Peer:
    """Makes our peer as `predict` runs it: one graph for any batch shape."""
    return _keras(setting, is_static=False)


def keras(setting: Setting) -> Peer:
    """Makes our peer as a function that is traced for each shape."""
    return _keras(setting, is_static=True)


def torch(setting: Setting) -> Peer:
    """Makes a peer of Hugging Face's encoder with PyTorch's fused attention."""
    return _torch(setting, is_compiled=False)


def torch_compiled(setting: Setting) -> Peer:
    """Makes the peer `torch`, under torch.compile."""
    return _torch(setting, is_compiled=True)


def onnx(setting: Setting) -> Peer:
    """Makes a peer of ONNX Runtime with the graph that PyTorch exports."""
    return _onnx(setting, "encoder.onnx")


def onnx_fused(setting: Setting) -> Peer:
    """Makes the peer `onnx`, with the graph fused by its optimizer."""
    return _onnx(setting, "fused.onnx")


def torch_files(setting: Setting) -> Peer:
    """Writes the weights and the two ONNX graphs that the other peers read."""
    import transformers
    from onnxruntime.transformers import optimizer

    save_random(transformers.ElectraModel, setting.sizes, setting.directory)
    model = hugging_face("ElectraModel", setting.directory, "eager")
    path = f"{setting.directory}/encoder.onnx"
    write_onnx(model, "last_hidden_state", path)
    fused = optimizer.optimize_model(
        path,
        model_type="bert",
        num_heads=setting.sizes["num_attention_heads"],
        hidden_size=setting.sizes["hidden_size"],
        opt_level=1,
    )
    fused.save_model_to_file(f"{setting.directory}/fused.onnx")
    return Peer({}, lambda *_: None)


PEERS = {
    function.__name__: function
    for function in (
        saved_model,
        exported_onnx,
        exported_tflite,
        predict,
        keras,
        torch,
        torch_compiled,
        onnx,
        onnx_fused,
        torch_files,
    )
}


def save_random(
    kind: Any,  # noqa: ANN401 (a class of a package that may be missing)
    sizes: dict[str, int],
    directory: str,
) -> None:
    """Writes a Hugging Face network with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = kind(transformers.ElectraConfig(**sizes))
    for weight in model.parameters():
        if weight.dim() == 1:  # biases, gamma and beta, which start at 0 and 1
            weight.data += 0.1 * torch.randn_like(weight)
    model.save_pretrained(directory)


def write_onnx(model: Any, output: str, path: str) -> None:  # noqa: ANN401
    """Writes the ONNX graph of a network.

    Shapes: output [B, L, ...].
    """
    import torch

    example = torch.ones(2, 16, dtype=torch.long)
    torch.onnx.export(
        _single_output(model, output),
        (example, example, example * 0),
        path,
        dynamo=False,
        input_names=list(_NAMES),
        output_names=[output],
        dynamic_axes={name: {0: "b", 1: "l"} for name in (*_NAMES, output)},
        opset_version=17,
    )


def _single_output(model: Any, output: str) -> Any:  # noqa: ANN401
    """Returns a module to export: ids, mask, segments -> output."""
    import torch

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(
            self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor
        ) -> torch.Tensor:
            found = self.model(ids, attention_mask=mask, token_type_ids=types)
            return found[output]

    return Module()


def _inputs(ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns the inputs of an encoder, in the order of `_NAMES`."""
    return ids, mask, np.zeros_like(ids)


def _ours(setting: Setting) -> tuple[Any, Any]:
    """Returns TensorFlow, with its threads set, and our encoder."""
    tf = tensorflow(setting.threads)
    from electra_tf.checkpoint import checkpoint_formats, loading

    weights = checkpoint_formats.read(setting.directory)
    return tf, loading.make(weights).encoder


def _exported(setting: Setting, name: str) -> tuple[Any, pathlib.Path]:
    """Returns TensorFlow, and our encoder as a SavedModel of ids."""
    tf, encoder = _ours(setting)
    from electra_tf.serving import saved_models

    def encode(*ids: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"states": encoder(*ids).sequence_output}

    spec = [tf.TensorSpec([None, None], tf.int32, name) for name in _NAMES]
    path = pathlib.Path(setting.directory, name, "ids/1")
    endpoints = {"serving_default": encode}
    saved_models.write(
        path, saved_models.with_constants(endpoints, [encoder]), spec
    )
    return tf, path


def _keras(setting: Setting, *, is_static: bool) -> Peer:
    from electra_tf.util import memory

    memory.keep()
    tf, encoder = _ours(setting)
    any_shape = [tf.TensorSpec([None, None], tf.int32)] * len(_NAMES)
    function = tf.function(
        lambda *x: encoder(*x).sequence_output,
        input_signature=None if is_static else any_shape,
        autograph=False,
    )

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return function(*map(tf.constant, _inputs(ids, mask))).numpy()

    return Peer(versions("tensorflow"), run)


def _torch(setting: Setting, *, is_compiled: bool) -> Peer:
    import torch

    torch.set_num_threads(setting.threads)
    model = hugging_face("ElectraModel", setting.directory, "sdpa")
    function = torch.compile(model, dynamic=False) if is_compiled else model

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        ids, mask = (torch.from_numpy(x).long() for x in (ids, mask))
        with torch.inference_mode():
            found = function(input_ids=ids, attention_mask=mask)
        return found.last_hidden_state.numpy()

    return Peer(versions("torch", "transformers"), run)


def hugging_face(name: str, directory: str, attention: str) -> Any:  # noqa: ANN401
    """Loads a network."""
    import transformers

    kind = getattr(transformers, name)
    return kind.from_pretrained(directory, attn_implementation=attention).eval()


def _onnx(setting: Setting, file_name: str) -> Peer:
    run = onnx_session(f"{setting.directory}/{file_name}", setting.threads)
    return Peer(versions("onnxruntime"), run)


def onnx_session(
    path: str, threads: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Opens an ONNX graph in ONNX Runtime.

    Shapes: returns [B, L].
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    types = {x.name: x.type for x in session.get_inputs()}

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        arrays = dict(zip(_NAMES, _inputs(ids, mask), strict=True))
        feeds = {
            name: arrays[name].astype("int32" if "32" in kind else "int64")
            for name, kind in types.items()
        }
        return session.run(None, feeds)[0]

    return run


def main(name: str, setting: Setting) -> None:
    """Makes a peer, and answers requests until the input ends."""
    peer = PEERS[name](setting)

    def answer(request: dict[str, Any]) -> dict[str, float]:
        inputs = random_rows(
            np.random.default_rng(0),
            setting.sizes["vocab_size"],
            request["shape"],
        )
        start = time.perf_counter()
        for _ in range(request["count"]):
            states = peer.encode(*inputs)
        seconds = (time.perf_counter() - start) / request["count"]
        if request["output"]:
            np.save(request["output"], states)
        return {"seconds": seconds}

    answer_requests(peer.versions, answer)


if __name__ == "__main__":
    main(*worker_arguments(__doc__, Setting, peer=PEERS))
