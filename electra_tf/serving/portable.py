"""SavedModels of ids in the formats of other runtimes: ONNX and TFLite.

    <directory>/onnx/model.onnx        for ONNX Runtime
    <directory>/tflite/model.tflite    for LiteRT, as TensorFlow Lite is called

beside <directory>/ids/1. They have its signature "serving_default": the same
inputs and outputs, and any number of rows and of tokens. A model whose outputs
differ from those of the SavedModel is not written.

Letters in shapes: B rows, L tokens in a row.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from etils import epath
from tensorflow.python.framework import convert_to_constants

from electra_tf.serving.saved_models import IDS
from electra_tf.util.errors import UserError

LARGEST_DIFFERENCE = 1e-4
"""Tolerance for outputs up to 1; for larger ones, times the largest."""

_OPSET = 17
_SHAPES = ((3, 7), (1, 2))  # [B, L] of the inputs that are tried

Arrays = Mapping[str, np.ndarray]


def convert(path: epath.Path, formats: Sequence[str]) -> list[epath.Path]:
    model = tf.saved_model.load(str(path))
    signature = model.signatures["serving_default"]
    written = []
    for name in formats:
        content, run = _CONVERTERS[name](model, signature)
        for shape in _SHAPES:
            inputs = {x.name: np.zeros(shape, np.int32) for x in IDS}
            inputs["input_mask"][:, : shape[1] - 1] = 1
            inputs["input_ids"] += np.arange(shape[1], dtype=np.int32) % 3
            tensors = {key: tf.constant(x) for key, x in inputs.items()}
            expected = signature(**tensors)
            _check({k: x.numpy() for k, x in expected.items()}, run(inputs))
        file = path.parent.parent / name / f"model.{name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        written.append(file)
    return written


def _check(expected: Arrays, outputs: Arrays) -> None:
    """Compares the float32 outputs of two models for the same ids."""
    for name, array in expected.items():
        if array.dtype == np.float32:
            limit = LARGEST_DIFFERENCE * max(1.0, np.abs(array).max())
            difference = np.abs(array - outputs[name]).max()
            if not difference <= limit:  # NaN fails as well
                raise UserError(
                    f"The converted model's {name!r} differs by {difference:g}"
                )


def _onnx(model: Any, signature: Any) -> tuple[bytes, Any]:  # noqa: ANN401
    """Returns a model for ONNX Runtime and a function that runs it."""
    import onnxruntime
    import tf2onnx

    del model
    frozen = convert_to_constants.convert_variables_to_constants_v2(
        signature, lower_control_flow=False, aggressive_inlining=True
    )
    inputs = [x.name for x in frozen.inputs]
    outputs = [x.name for x in frozen.outputs]
    names = [x.partition(":")[0] for x in inputs]
    names += sorted(signature.structured_outputs)

    def write_erfc(graph, node, name, arguments) -> None:  # noqa: ANN001
        """Writes 1 - erf(x) in place of erfc(x), which ONNX lacks."""
        del arguments
        (x,), results = node.input, node.output
        kind = {
            "dtypes": [graph.get_dtype(results[0])],
            "shapes": [graph.get_shape(results[0])],
        }
        graph.remove_node(name)
        one = graph.make_const(tf2onnx.utils.make_name(name), np.float32(1))
        erf = graph.make_node("Erf", [x], **kind)
        terms = [one.output[0], erf.output[0]]
        graph.make_node("Sub", terms, name=name, outputs=results, **kind)

    proto, _ = tf2onnx.convert.from_graph_def(
        frozen.graph.as_graph_def(add_shapes=True),
        input_names=inputs,
        output_names=outputs,
        opset=_OPSET,
        custom_op_handlers={"Erfc": (write_erfc, [])},
        tensors_to_rename=dict(zip(inputs + outputs, names, strict=True)),
    )
    for tensor in (*proto.graph.input, *proto.graph.output):
        axes = tensor.type.tensor_type.shape.dim
        for axis, name in zip(axes, ("rows", "tokens"), strict=False):
            if not axis.HasField("dim_value"):
                axis.dim_param = name
    content = proto.SerializeToString()
    session = onnxruntime.InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )
    keys = [x.name for x in session.get_outputs()]
    return content, lambda x: dict(zip(keys, session.run(keys, x), strict=True))


def _tflite(model: Any, signature: Any) -> tuple[bytes, Any]:  # noqa: ANN401
    """Returns a model for LiteRT and a function that runs it."""
    from ai_edge_litert.interpreter import Interpreter

    content = tf.lite.TFLiteConverter.from_concrete_functions(
        [signature], model
    ).convert()
    runner = Interpreter(model_content=content).get_signature_runner()
    return content, lambda inputs: runner(**inputs)


_CONVERTERS = {"onnx": _onnx, "tflite": _tflite}
