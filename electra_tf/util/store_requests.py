"""Requests to a store: retried after temporary errors, with named paths."""

import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from electra_tf.util.errors import UserError, reason

_RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between two tries of a request."""
_TEMPORARY_ERRORS = {
    "AbortedError",
    "DeadlineExceededError",
    "FailedPreconditionError",  # gs:// whose host name is not resolved
    "InternalError",
    "TornWriteError",
    "UnavailableError",
    "UnknownError",
}
"""Names of temporary errors, after which a request is retried."""

Function = TypeVar("Function", bound=Callable)

_logger = logging.getLogger(__name__)


class StoreError(UserError, OSError):
    """A store cannot be used."""


class TornWriteError(Exception):
    """A file that was read back differs from what was written."""


def request(
    function: Function | None = None, *, missing_is_done: bool = False
) -> Function:
    """Retries a request, and raises errors of TensorFlow as `OSError`s."""
    if function is None:
        return functools.partial(request, missing_is_done=missing_is_done)

    @functools.wraps(function)
    def tried(path: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        for number, wait in enumerate((*_RETRY_DELAYS, None)):
            try:
                return function(path, *args, **kwargs)
            except Exception as error:
                # Recognized by name, so that TensorFlow need not be imported.
                kinds = {base.__name__ for base in type(error).__mro__}
                if missing_is_done and number and "NotFoundError" in kinds:
                    return None
                if wait is None or not kinds & _TEMPORARY_ERRORS:
                    _raise(error, kinds, path, number)
                _logger.warning(
                    "%s: %s. Retrying in %g s.",
                    os.fspath(path),
                    reason(error),
                    wait,
                )
                time.sleep(wait)

    return tried


def _raise(
    error: Exception, kinds: set[str], path: object, num_retries: int
) -> None:
    """Raises an error of TensorFlow as an `OSError`, any other unchanged."""
    if "NotFoundError" in kinds:
        raise FileNotFoundError(reason(error)) from error
    if kinds & _TEMPORARY_ERRORS:
        raise StoreError(
            f"{os.fspath(path)} must be in a store that can be reached. "
            f"Received, after {num_retries} retries: {reason(error)}. Give the "
            "same command again when it can."
        ) from error
    if "OpError" in kinds:
        raise StoreError(
            f"{os.fspath(path)} must be in a store that TensorFlow can access. "
            f"Received: {reason(error)}"
        ) from error
    raise error
