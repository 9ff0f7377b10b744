"""config.json of a Hugging Face directory: class, sizes, labels.

Source: transformers, models/electra/configuration_electra.py and
modeling_electra.py.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from electra_tf.checkpoint.architecture import (
    DISCRIMINATOR_HEAD,
    GENERATOR_HEAD,
)
from electra_tf.config.model import BertConfig
from electra_tf.util import files
from electra_tf.util.errors import UserError

CONFIG_FILE = "config.json"

ENCODER = "ElectraModel"
PRE_TRAINING = "ElectraForPreTraining"
MASKED_LM = "ElectraForMaskedLM"
SEQUENCE_CLASSIFICATION = "ElectraForSequenceClassification"
TOKEN_CLASSIFICATION = "ElectraForTokenClassification"
QUESTION_ANSWERING = "ElectraForQuestionAnswering"
LABELLED = (SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION)

QA_MODULES = ("dense", "dense_1")
"""Modules that score the start and the end of an answer."""


class ModelClass(NamedTuple):
    """A class of transformers: an encoder with at most one head."""

    tensors: tuple[str, ...] = ()
    heads: tuple[str, ...] | None = None
    kind: str = ""
    modules: tuple[str, ...] = ()
    reason: str = ""


CLASSES = {
    ENCODER: ModelClass(heads=()),
    PRE_TRAINING: ModelClass(
        ("discriminator_predictions.",), (DISCRIMINATOR_HEAD,)
    ),
    MASKED_LM: ModelClass(
        ("generator_predictions.", "generator_lm_head."), (GENERATOR_HEAD,)
    ),
    SEQUENCE_CLASSIFICATION: ModelClass(
        ("classifier.dense.", "classifier.out_proj."),
        kind="sequence_classification",
        modules=("classifier/dense", "classifier/out_proj"),
        reason="Hugging Face's head is two dense layers with a GELU between "
        "them on [CLS]; the original's, of classification and of regression, "
        "is one dense layer, which is another function",
    ),
    TOKEN_CLASSIFICATION: ModelClass(
        ("classifier.weight", "classifier.bias"),
        kind="token_classification",
        modules=("dense",),
        reason="Hugging Face's head is one dense layer on each token",
    ),
    QUESTION_ANSWERING: ModelClass(
        ("qa_outputs.",),
        kind="question_answering",
        modules=QA_MODULES,
        reason="Hugging Face's head is a linear score of the start and one of "
        "the end, each of its own; it has no place for a score of the end "
        "that depends on the start (joint_prediction), nor for one of "
        "answerability (answerable_classifier)",
    ),
}
KINDS = {known.kind: name for name, known in CLASSES.items() if known.kind}
"""Kind of a fine-tuned head -> its class."""

# The only values that our network supports; also the defaults of the fields.
_FIXED = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
}
_WRITTEN = ("hidden_act", "layer_norm_eps", "is_decoder", "add_cross_attention")
# Fields of the same name and meaning as BertConfig's, with their defaults:
# those that shapes determine, too (`_SIZES`), and those only in the file.
_SIZES = {
    "vocab_size": 30522,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "intermediate_size": 1024,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
_HEADS = "num_attention_heads"
_TIES = "tie_word_embeddings"
_RATES = {
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}


@dataclasses.dataclass(frozen=True)
class Config:
    """The checked content of config.json."""

    path: pathlib.Path
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.values, dict):
            raise UserError(f"{self.path} must hold a JSON object.")
        self._require("model_type", "electra")
        for name, value in _FIXED.items():
            if name in self.values:
                self._require(name, value)
        if self.class_name not in ("", *CLASSES):
            raise self._error("architectures", f"one of {', '.join(CLASSES)}")
        self._check_types()

    def _check_types(self) -> None:
        heads = self.num_attention_heads
        if type(heads) is not int or heads < 1:
            raise self._error(_HEADS, "an integer, at least 1")
        if type(self.ties_word_embeddings) is not bool:
            raise self._error(_TIES, "true or false")
        for name in _RATES:
            rate = self.values.get(name, 0.0)
            if type(rate) not in (int, float) or not 0 <= rate < 1:
                raise self._error(name, "a number in [0, 1)")

    @classmethod
    def from_directory(cls, directory: pathlib.Path) -> "Config":
        """Reads config.json in a directory."""
        path = directory / CONFIG_FILE
        return cls(path, files.read_json(path))

    @property
    def class_name(self) -> str:
        """The class that wrote the directory; empty if not known."""
        classes = self.values.get("architectures") or [""]
        one = isinstance(classes, list) and len(classes) == 1
        return classes[0] if one else repr(classes)

    @property
    def task(self) -> str:
        """The name of the task of a fine-tuned head."""
        task = self.values.get("finetuning_task")
        is_name = isinstance(task, str) and task and "/" not in task
        return task if is_name else "task"

    @property
    def num_attention_heads(self) -> int:
        """Attention heads in each layer, which shapes do not determine."""
        return self.values.get(_HEADS, 4)

    @property
    def ties_word_embeddings(self) -> bool:
        """Whether the generator's output table is its word embeddings."""
        return self.values.get(_TIES, True)

    def encoder(self, inferred: BertConfig) -> BertConfig:
        """Returns the encoder's configuration."""
        for name, default in _SIZES.items():
            size = getattr(inferred, name)
            if self.values.get(name, default) != size:
                raise self._error(name, f"{size}, as the weights' shapes say")
        rates = {
            name: float(self.values.get(name, default))
            for name, default in _RATES.items()
        }
        try:
            return dataclasses.replace(
                inferred, num_attention_heads=self.num_attention_heads, **rates
            )
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from error

    def labels(self, num_outputs: int) -> tuple[str, ...]:
        """Returns the names of a head's outputs; empty if they have none."""
        names = self.values.get("id2label")
        if not names:
            return ()
        expected = {str(i) for i in range(num_outputs)}
        if not isinstance(names, dict) or names.keys() != expected:
            rule = f"one label for each of the head's {num_outputs} outputs"
            raise self._error("id2label", rule)
        return tuple(str(names[str(i)]) for i in range(num_outputs))

    def _require(self, name: str, value: Any) -> None:  # noqa: ANN401
        if self.values.get(name) != value:
            raise self._error(name, json.dumps(value))

    def _error(self, name: str, rule: str) -> UserError:
        received = json.dumps(self.values.get(name))
        return UserError(
            f"`{name}` must be {rule} in {self.path}. Received: "
            f"{name}={received}. No other network can be read."
        )


def content(
    encoder: BertConfig,
    class_name: str,
    *,
    task: str = "",
    labels: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Returns the content of config.json."""
    names = (*_SIZES, _HEADS, *_RATES)
    values = {
        "architectures": [class_name],
        "model_type": "electra",
        **{name: getattr(encoder, name) for name in names},
        **{name: _FIXED[name] for name in _WRITTEN},
        "pad_token_id": 0,
        _TIES: True,
        "torch_dtype": "float32",
    }
    if task:
        values["finetuning_task"] = task
    if labels:
        values["id2label"] = {str(i): name for i, name in enumerate(labels)}
        values["label2id"] = {name: i for i, name in enumerate(labels)}
    return values
