"""An HTTP server of a SavedModel, of KServe.

    from electra_tf.serving import kserve_model

    kserve_model.serve("saved_model/correction/text/1", port=8080)

It answers POST /v1/models/electra:predict with what `rest` tells, and GET
/v2/health/ready.
"""

from typing import Any

from electra_tf.serving.rest import TextServer
from electra_tf.util.errors import UserError

try:
    import kserve
except ImportError as error:
    raise UserError(
        "The server needs KServe. Received: no such package. Install it with "
        "python -m pip install -e '.[serve]'."
    ) from error


class KServeModel(kserve.Model):
    """A SavedModel of texts as KServe has models.

    Args:
      name: of the model in addresses.
      directory: of the SavedModel.
    """

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(name)
        self._server = TextServer(directory)
        self.ready = True

    def predict(
        self,
        payload: Any,  # noqa: ANN401 (JSON)
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> dict[str, list]:
        """Answers a request; a bad one with status 400."""
        del headers, response_headers
        try:
            return self._server.answer(payload)
        except UserError as error:
            raise kserve.errors.InvalidInput(str(error)) from error


def serve(directory: str, *, name: str = "electra", port: int = 8080) -> None:
    """Serves a SavedModel until the process is stopped.

    Args:
      directory: of the SavedModel, as ".../text/1".
      name: of the model in addresses.
      port: of HTTP.
    """
    server = kserve.ModelServer(http_port=port, enable_grpc=False)
    server.start([KServeModel(name, directory)])
