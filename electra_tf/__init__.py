"""ELECTRA for TensorFlow 2 and Keras 3."""

import importlib

from electra_tf.util import keras_registration

__version__ = "0.1.0"

_MODELS = "electra_tf.finetune.keras_models"
_KERAS = {
    "ElectraBackbone": f"{_MODELS}.backbone",
    "ElectraClassifier": f"{_MODELS}.text_models",
    "ElectraDiscriminator": "electra_tf.model.networks",
    "ElectraGenerator": "electra_tf.model.networks",
    "ElectraPretrainer": "electra_tf.pretrain.electra_pretrainer",
    "ElectraQA": f"{_MODELS}.question_answering",
    "ElectraRegressor": f"{_MODELS}.text_models",
    "ElectraTagger": f"{_MODELS}.tagger",
}
_PUBLIC = {
    **_KERAS,
    "AdamWeightDecayOptimizer": "electra_tf.model.optimization",
    "BertConfig": "electra_tf.config.model",
    "ElectraWarning": "electra_tf.util.errors",
    "Predictor": "electra_tf.finetune.predictor",
    "PretrainingConfig": "electra_tf.configure_pretraining",
    "QAConfig": "electra_tf.config.qa",
    "Scorer": "electra_tf.analysis.scoring.scorer",
    "UserError": "electra_tf.util.errors",
    "Vocabulary": "electra_tf.model.tokenization",
}
_SAVED = {
    **_KERAS,
    "EncoderWithHead": "electra_tf.model.networks",
    "TaggingLoss": f"{_MODELS}.tagger",
    "FittedDecay": f"{_MODELS}.fitting",
    "AdamWeightDecayOptimizer": "electra_tf.model.optimization",
    "WarmupPolynomialDecay": "electra_tf.model.schedules",
}
"""Classes that `.keras` files name; registered lazily, on first use."""

keras_registration.register(_SAVED)


def __getattr__(name: str) -> object:
    """Imports a public name on first use, as TensorFlow takes seconds."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    """Lists the public names, imported or not."""
    return sorted({*globals(), *_PUBLIC})
