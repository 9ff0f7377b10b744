"""Packages that the installation does not bring by itself."""

import importlib
import types

from electra_tf.util.errors import UserError


def load(module: str, extra: str = "") -> types.ModuleType:
    """Imports a module of an optional package.

    Args:
      module: its full name.
      extra: of setup.py, that installs the package. Default: none does, and
        the package has the name of its first module.

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
