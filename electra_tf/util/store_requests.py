"""Requests to a store: repeated while they fail for the moment, then named."""

import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from electra_tf.util.errors import UserError, reason

_WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between two tries of a request."""
_MOMENTARY = {
    "AbortedError",
    "DeadlineExceededError",
    "FailedPreconditionError",  # gs:// if its host's name is not resolved
    "InternalError",
    "TornWriteError",
    "UnavailableError",
    "UnknownError",
}
"""Names of the errors after which a request is made again."""

Function = TypeVar("Function", bound=Callable)

_logger = logging.getLogger(__name__)


class StoreError(UserError, OSError):
    """A store cannot be used."""


class TornWriteError(Exception):
    """What was written is not what is read back."""


def request(
    function: Function | None = None, *, missing_is_done: bool = False
) -> Function:
    """Repeats a request, and raises errors of TensorFlow as `OSError`s.

    Args:
      function: of a path first, that may be called again.
      missing_is_done: whether a file that is missing when the request is made
        again says that the first one, whose answer was lost, was heard.
    """
    if function is None:
        return functools.partial(request, missing_is_done=missing_is_done)

    @functools.wraps(function)
    def tried(path: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        for number, wait in enumerate((*_WAITS, None)):
            try:
                return function(path, *args, **kwargs)
            except Exception as error:
                # Known by their names, so without TensorFlow.
                kinds = {base.__name__ for base in type(error).__mro__}
                if missing_is_done and number and "NotFoundError" in kinds:
                    return None
                if wait is None or not kinds & _MOMENTARY:
                    _raise(error, kinds, path, number)
                _logger.warning(
                    "%s: %s. Tried again in %g s.",
                    os.fspath(path),
                    reason(error),
                    wait,
                )
                time.sleep(wait)

    return tried


def _raise(
    error: Exception, kinds: set[str], path: object, num_retries: int
) -> None:
    """Raises an error of TensorFlow as one of Python, any other as it is."""
    if "NotFoundError" in kinds:
        raise FileNotFoundError(reason(error)) from error
    if kinds & _MOMENTARY:
        raise StoreError(
            f"{os.fspath(path)} must be in a store that answers. Received, "
            f"after {num_retries} further tries: {reason(error)}. Give the "
            "same command again when it does."
        ) from error
    if "OpError" in kinds:
        raise StoreError(
            f"{os.fspath(path)} must be in a store that TensorFlow reaches. "
            f"Received: {reason(error)}"
        ) from error
    raise error
