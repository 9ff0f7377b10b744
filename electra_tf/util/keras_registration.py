"""Lazy registration of Keras classes: imported when a file names them.

Keras loads objects only of registered classes. A decorator registers a class
when its module is imported, which imports TensorFlow. So as soon as Keras
itself is imported, a placeholder is registered for each class; the class is
imported when a file names it, and replaces its placeholder.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

PACKAGE = "electra_tf"


def register(classes: Mapping[str, str]) -> None:
    """Registers classes (name -> module) with Keras, now or on its import."""
    if hasattr(sys.modules.get("keras"), "saving"):
        _register(sys.modules["keras"], classes)
    else:
        sys.meta_path.insert(0, _KerasFinder(classes))


def _register(keras: types.ModuleType, classes: Mapping[str, str]) -> None:
    known = keras.saving.get_custom_objects()
    for name, module in classes.items():
        known.setdefault(f"{PACKAGE}>{name}", _Placeholder(name, module))


class _Placeholder:
    """Placeholder of a class that is not imported yet."""

    def __init__(self, name: str, module: str) -> None:
        self._name = name
        self._module = module

    def from_config(self, config: Mapping[str, Any]) -> object:
        """Makes an object of the class."""
        cls = getattr(importlib.import_module(self._module), self._name)
        return cls.from_config(config)


class _KerasFinder(importlib.abc.MetaPathFinder):
    """Registers classes at the end of the import of Keras."""

    def __init__(self, classes: Mapping[str, str]) -> None:
        self._classes = classes

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "keras":
            return None
        for finder in [x for x in sys.meta_path if x is not self]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                self._register_after(spec.loader)
                return spec
        return None

    def _register_after(self, loader: importlib.abc.Loader) -> None:
        execute = loader.exec_module

        def execute_and_register(module: types.ModuleType) -> None:
            execute(module)
            _register(module, self._classes)
            if self in sys.meta_path:
                sys.meta_path.remove(self)

        loader.exec_module = execute_and_register
