"""Optional packages, which are not installed by default."""

import importlib
import types

from electra_tf.util.errors import UserError


def load(module: str, extra: str = "") -> types.ModuleType:
    """Imports a module of an optional package.

    Args:
      module: full name of the module.
      extra: extra of setup.py that installs the package. Default: none, and
        the package is named as the top-level module.

    Raises:
      UserError: naming the command that installs it, if it is not there.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        what = f"-e '.[{extra}]'" if extra else module.partition(".")[0]
        raise UserError(
            f"This needs {module}. Received: an installation without it. Run: "
            f"python -m pip install {what}"
        ) from error
