"""ELECTRA for TensorFlow 2 and Keras 3."""

import importlib

__version__ = "0.1.0"

_MODELS = "electra_tf.finetune.keras_models"
_PUBLIC = {
    "ElectraBackbone": f"{_MODELS}.base",
    "ElectraClassifier": f"{_MODELS}.classifiers",
    "ElectraDiscriminator": "electra_tf.model.networks",
    "ElectraGenerator": "electra_tf.model.networks",
    "ElectraPretrainer": "electra_tf.pretrain.electra_pretrainer",
    "ElectraQA": f"{_MODELS}.qa",
    "ElectraRegressor": f"{_MODELS}.classifiers",
    "ElectraTagger": f"{_MODELS}.classifiers",
    "AdamWeightDecayOptimizer": "electra_tf.model.optimization",
    "BertConfig": "electra_tf.config.model",
    "ElectraWarning": "electra_tf.util.errors",
    "Predictor": "electra_tf.finetune.finetuned",
    "PretrainingConfig": "electra_tf.configure_pretraining",
    "QAConfig": "electra_tf.config.columns",
    "Scorer": "electra_tf.analysis.scorer",
    "UserError": "electra_tf.util.errors",
    "Vocabulary": "electra_tf.model.tokenization",
}


def __getattr__(name: str) -> object:
    """Imports a public name on first use, as TensorFlow takes seconds."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    """Lists the public names, imported or not."""
    return sorted({*globals(), *_PUBLIC})
