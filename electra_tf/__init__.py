"""ELECTRA for TensorFlow 2 and Keras 3."""

import importlib

__version__ = "0.1.0"

_PUBLIC = {
    "ElectraClassifier": "electra_tf.finetune.keras_models",
    "Predictor": "electra_tf.finetune.predictor",
}


def __getattr__(name: str) -> object:
    """Imports a public name when it is asked for: TensorFlow takes seconds."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
