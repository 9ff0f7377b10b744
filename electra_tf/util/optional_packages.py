"""Optional packages, which are not installed by default."""

import importlib
import types

from electra_tf.util.errors import UserError


def load(module: str, extra: str = "") -> types.ModuleType:
    """Imports a module of an optional package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        what = f"-e '.[{extra}]'" if extra else module.partition(".")[0]
        raise UserError(
            f"This needs {module}. Received: an installation without it. Run: "
            f"python -m pip install {what}"
        ) from error
