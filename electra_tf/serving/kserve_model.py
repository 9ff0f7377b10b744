"""Serves a SavedModel over HTTP and gRPC with KServe.

    from electra_tf.serving import kserve_model

    kserve_model.serve("saved_model/correction/text/1", port=8080)

It answers POST /v1/models/electra:predict in the format of `rest`; and POST
/v2/models/electra/infer and, with `grpc_port`, ModelInfer of gRPC in the open
inference protocol: text inputs are tensors of the data type BYTES, [B], outputs
are tensors in which shorter rows are padded, and the parameter "signature_name"
selects a signature. GET /v2/health/ready tells whether the server is ready.

Source: https://github.com/kserve/open-inference-protocol
"""

import asyncio
import struct
from typing import Any

from electra_tf.serving import rest
from electra_tf.serving.rest import TextServer
from electra_tf.util.errors import UserError

try:
    import kserve
    from kserve.protocol.infer_type import to_http_parameters
    from kserve.utils.numpy_codec import from_np_dtype
except ImportError as error:
    raise UserError(
        "The server needs KServe. Received: no such package. Install it with "
        "python -m pip install -e '.[serve]'."
    ) from error


class KServeModel(kserve.Model):
    """A SavedModel of texts as a KServe model."""

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(name)
        self._server = TextServer(directory)
        self._one_at_a_time = asyncio.Lock()
        self.ready = True

    async def predict(
        self,
        payload: Any,  # noqa: ANN401 (JSON, or KServe's request of tensors)
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> dict[str, list] | kserve.InferResponse:
        """Answers a request; a bad one with status 400."""
        del headers, response_headers
        is_of_tensors = isinstance(payload, kserve.InferRequest)
        try:
            request = self._server.parse(
                _parsed(payload) if is_of_tensors else payload
            )
        except UserError as error:
            raise kserve.errors.InvalidInput(str(error)) from error
        async with self._one_at_a_time:  # others wait, the loop does not
            rows = await asyncio.to_thread(self._server.rows, *request)
        if is_of_tensors:
            return _response(payload, rows)
        return rest.as_json(rows)


def serve(
    directory: str,
    *,
    name: str = "electra",
    port: int = 8080,
    grpc_port: int | None = None,
) -> None:
    """Serves a SavedModel until the process is stopped."""
    server = kserve.ModelServer(
        http_port=port, enable_grpc=grpc_port is not None, grpc_port=grpc_port
    )
    server.start([KServeModel(name, directory)])


def _parsed(request: kserve.InferRequest) -> dict[str, Any]:
    """Converts a request of tensors to the format of `rest`."""
    columns = {tensor.name: _texts(tensor) for tensor in request.inputs}
    if len(set(map(len, columns.values()))) > 1:
        sizes = {name: len(texts) for name, texts in columns.items()}
        raise UserError(
            f"All inputs must have the same number of texts. Received: {sizes}."
        )
    rows = zip(*columns.values(), strict=True)
    instances = [dict(zip(columns, row, strict=True)) for row in rows]
    parameters = to_http_parameters(request.parameters or {})
    return parameters | {"instances": instances}


def _texts(tensor: kserve.InferInput) -> list[str | bytes]:
    shape = list(tensor.shape)
    if tensor.datatype != "BYTES" or len(shape) != 1:
        raise UserError(
            f'The input "{tensor.name}" must be of the data type BYTES and of '
            f"one axis, [B]. Received: {tensor.datatype}, {shape}."
        )
    try:
        return list(tensor.as_numpy())
    except (ValueError, struct.error) as error:
        raise UserError(
            f'The input "{tensor.name}" must hold as many texts as its shape '
            f"says. Received: {shape} and {error}."
        ) from error


def _response(
    request: kserve.InferRequest, rows: list[rest.Row]
) -> kserve.InferResponse:
    outputs = []
    for name, array in rest.as_tensors(rows).items():
        kind = from_np_dtype(array.dtype)
        outputs.append(kserve.InferOutput(name, list(array.shape), kind))
        outputs[-1].set_data_from_numpy(array)
    return kserve.InferResponse(
        request.id or "",
        request.model_name,
        outputs,
        use_binary_outputs=request.use_binary_outputs,
        requested_outputs=request.request_outputs,
    )
