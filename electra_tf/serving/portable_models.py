"""SavedModels of ids in the formats of other runtimes: ONNX and TFLite.

    <directory>/onnx/model.onnx        for ONNX Runtime
    <directory>/tflite/model.tflite    for LiteRT, as TensorFlow Lite is called

beside <directory>/ids/1. They have its signature "serving_default": the same
inputs and outputs, and any number of rows and of tokens. A model whose outputs
differ from those of the SavedModel is not written.

Letters in shapes: B rows, L tokens in a row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

from electra_tf.util import console, files, optional_packages, storage
from electra_tf.util.errors import UserError

LARGEST_DIFFERENCE = 1e-4
"""Tolerance for outputs up to 1; for larger ones, times the largest."""

_OPSET = 17
_AXES = ("rows", "tokens")
_SHAPES = ((3, 7), (1, 2))  # [B, L] of the inputs that are tried
_PACKAGES = {
    "onnx": ("tf2onnx", "onnxruntime"),
    "tflite": ("ai_edge_litert.interpreter",),
}

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
"""Inputs by name -> outputs by name."""


def require_packages(formats: Sequence[str]) -> None:
    """Imports the packages that "onnx" or "tflite" needs."""
    for name in formats:
        for module in _PACKAGES[name]:
            optional_packages.load(module, name)


def convert(path: storage.Path, formats: Sequence[str]) -> list[storage.Path]:
    """Writes a SavedModel of ids in other formats."""
    require_packages(formats)
    with console.quiet_imports():
        return [_convert(path, name) for name in formats]


def _convert(path: storage.Path, name: str) -> storage.Path:
    convert, load = _FORMATS[name]
    served = _ServedSignature.load(path)
    sizes = served.num_rows("input_ids"), served.num_rows("segment_ids")
    tried = [_random_inputs(*sizes, *shape) for shape in _SHAPES]
    try:
        content = convert(served)
        run = load(content)
        found = [run(inputs) for inputs in tried]
    except Exception as error:  # converters raise errors of any kind
        raise UserError(
            f"Operations of the graph must be among those of {name}. Received: "
            f"{path}; {_first_line(error)}. Leave {name} out of --formats."
        ) from error
    for inputs, outputs in zip(tried, found, strict=True):
        _check(outputs, served.expected(inputs), f"{path}, as {name}")
    place = path.parent.parent / name / f"model.{name}"
    files.ensure_writable(place.parent)
    files.atomic_write_bytes(place, content)
    return place


class _ServedSignature(NamedTuple):
    """A signature of a SavedModel, three ways."""

    model: Any
    signature: Any
    frozen: Any

    @classmethod
    def load(cls, path: storage.Path) -> "_ServedSignature":
        model = tf.saved_model.load(str(path))
        signature = model.signatures["serving_default"]
        frozen = convert_to_constants.convert_variables_to_constants_v2(
            signature, lower_control_flow=False, aggressive_inlining=True
        )
        return cls(model, signature, frozen)

    def num_rows(self, name: str) -> int:
        """Returns the rows of the smallest table of an input; 1 without any."""
        operations = self.frozen.graph.get_operations()
        rows = (
            x.inputs[0].shape[0]
            for x in operations
            if x.type == "GatherV2" and _source(x.inputs[1]) == name
        )
        return min(rows, default=1)

    def expected(self, inputs: Arrays) -> Arrays:
        """Returns the outputs of the SavedModel."""
        tensors = {name: tf.constant(x) for name, x in inputs.items()}
        found = self.signature(**tensors)
        return {name: tensor.numpy() for name, tensor in found.items()}


def _to_onnx(served: _ServedSignature) -> bytes:
    import tf2onnx

    frozen = served.frozen
    inputs = [x.name for x in frozen.inputs]
    outputs = [x.name for x in frozen.outputs]
    names = [x.partition(":")[0] for x in inputs]
    names += sorted(served.signature.structured_outputs)
    proto, _ = tf2onnx.convert.from_graph_def(
        frozen.graph.as_graph_def(add_shapes=True),
        input_names=inputs,
        output_names=outputs,
        opset=_OPSET,
        custom_op_handlers={"Erfc": (_write_erfc, [])},
        tensors_to_rename=dict(zip(inputs + outputs, names, strict=True)),
    )
    for tensor in (*proto.graph.input, *proto.graph.output):
        axes = tensor.type.tensor_type.shape.dim
        for axis, name in zip(axes, _AXES, strict=False):
            if not axis.HasField("dim_value"):
                axis.dim_param = name
    return proto.SerializeToString()


def _write_erfc(
    graph: Any,  # noqa: ANN401 (of tf2onnx)
    node: Any,  # noqa: ANN401
    name: str,
    arguments: Sequence,
) -> None:
    """Writes 1 - erf(x) in place of erfc(x), which ONNX lacks."""
    del arguments
    import tf2onnx

    (x,), outputs = node.input, node.output
    kind = {
        "dtypes": [graph.get_dtype(outputs[0])],
        "shapes": [graph.get_shape(outputs[0])],
    }
    graph.remove_node(name)
    one = graph.make_const(tf2onnx.utils.make_name(name), np.float32(1))
    erf = graph.make_node("Erf", [x], **kind)
    terms = [one.output[0], erf.output[0]]
    graph.make_node("Sub", terms, name=name, outputs=outputs, **kind)


def _load_onnx(content: bytes) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )
    names = [x.name for x in session.get_outputs()]

    def run(inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def _to_tflite(served: _ServedSignature) -> bytes:
    return tf.lite.TFLiteConverter.from_concrete_functions(
        [served.signature], served.model
    ).convert()


def _load_tflite(content: bytes) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=content).get_signature_runner()
    return lambda inputs: runner(**inputs)


_FORMATS = {
    "onnx": (_to_onnx, _load_onnx),
    "tflite": (_to_tflite, _load_tflite),
}


def _source(tensor: tf.Tensor) -> str:
    """Returns the name of a tensor's operation, apart from identities."""
    while tensor.op.type == "Identity":
        (tensor,) = tensor.op.inputs
    return tensor.op.name


def _check(found: Arrays, expected: Arrays, origin: str) -> None:
    """Compares the float32 outputs of two models for the same ids."""
    for name, array in expected.items():
        if array.dtype != np.float32:
            continue
        limit = LARGEST_DIFFERENCE * max(1.0, np.abs(array).max())
        difference = np.abs(array - found[name]).max()
        if not difference <= limit:  # NaN fails, too
            raise UserError(
                "A converted model must have the outputs of the SavedModel, "
                f"within {limit:.1g}. Received: {name!r} that differs by "
                f"{difference:.1g}, of {origin}. Leave the format out of "
                "--formats."
            )


def _random_inputs(
    num_words: int, num_segments: int, size: int, length: int
) -> Arrays:
    """Returns rows of random ids with padding, int32 [B, L] each."""
    random = np.random.default_rng(0)
    sizes = random.integers(1, length + 1, size)
    sizes[0] = length
    mask = np.arange(length) < sizes[:, np.newaxis]
    inputs = {
        "input_ids": random.integers(num_words, size=mask.shape) * mask,
        "input_mask": mask,
        "segment_ids": random.integers(num_segments, size=mask.shape) * mask,
    }
    return {name: x.astype(np.int32) for name, x in inputs.items()}


def _first_line(error: Exception) -> str:
    """Returns the start of a message that may be a whole graph."""
    return " ".join(str(error).partition("\n")[0][:300].split()).rstrip(".")
