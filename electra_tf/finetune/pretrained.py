"""The encoder that fine-tuning starts from, and the defaults it determines.

Unless flags are given, the encoder determines

  learning_rate, layerwise_lr_decay   by its width, `OptimizerConfig.rates`
  dropout                             as in pre-training, 0.1 if that had none
  max_query_length, doc_stride        by the room in its rows, `QAConfig.fitted`

A run stores the values in its configuration, so that `config.json` records
them and a resume compares them.
"""

import dataclasses
import hashlib
import pathlib

import numpy as np

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.weights import (
    ENCODER,
    Weights,
    select,
    without_slots,
)
from electra_tf.config.model import BertConfig
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.qa.qa_tasks import TASKS, QATask
from electra_tf.util.errors import UserError

_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def read(config: FinetuningConfig) -> Weights:
    """Reads the encoder of the model directory, or of `init_checkpoint`."""
    path = config.training.init_checkpoint or config.run.model_dir
    if not config.training.init_checkpoint:
        _check_has_checkpoint(config)
    vocab_file = config.task.vocab_file
    loaded = loading.read(path, vocab_file=vocab_file)
    weights = without_slots(select(loaded, ENCODER))
    if weights.vocabulary is None:
        raise UserError(
            f"{weights.origin} has no vocabulary: set --vocab_file."
        )
    switches = {}
    for name in ("do_lower_case", "strip_accents"):
        flag, stored = getattr(config.task, name), getattr(weights, name)
        is_set = flag == "true"
        switches[name] = stored is not False if flag == "auto" else is_set
    return dataclasses.replace(weights, **switches)


def digest(weights: Weights) -> str:
    """Returns the digest of an encoder and its tokenizer."""
    found = hashlib.sha256()
    for name, array in sorted(weights.arrays.items()):
        if name != STEP:
            found.update(f"{name} {array.dtype} {array.shape}\n".encode())
            found.update(np.ascontiguousarray(array).data)
    switches = (weights.do_lower_case, weights.strip_accents)
    found.update(f"{weights.vocabulary.sha256} {switches}".encode())
    return found.hexdigest()


def resolve_defaults(
    config: FinetuningConfig, weights: Weights
) -> tuple[FinetuningConfig, Weights]:
    """Replaces the defaults that the encoder determines by their values."""
    encoder = weights.architecture.encoder
    rates = config.optimizer.rates(encoder.hidden_size)
    dropouts = {}
    for name in _DROPOUTS:  # the flag, then pre-training's if not 0, then 0.1
        flag = getattr(config.training, name)
        pretrained_rate = getattr(encoder, name) or 0.1
        dropouts[name] = pretrained_rate if flag is None else flag
    resolved = dataclasses.replace(
        config,
        optimizer=dataclasses.replace(config.optimizer, **rates._asdict()),
        training=dataclasses.replace(config.training, **dropouts),
        qa=config.qa.fitted(_qa_row_length(config, encoder)),
    )
    architecture = dataclasses.replace(
        weights.architecture, encoder=dataclasses.replace(encoder, **dropouts)
    )
    return resolved, dataclasses.replace(weights, architecture=architecture)


def resolved_flags(before: FinetuningConfig, resolved: FinetuningConfig) -> str:
    """Returns the settings that `resolve_defaults` filled in, as flags."""
    pairs = [(before.optimizer, resolved.optimizer)]
    pairs.append((before.training, resolved.training))
    if _has_qa_task(before):
        pairs.append((before.qa, resolved.qa))
    return " ".join(
        f"--{field.name}={getattr(new, field.name)}"
        for old, new in pairs
        for field in dataclasses.fields(new)
        if getattr(old, field.name) != getattr(new, field.name)
    )


def _qa_row_length(config: FinetuningConfig, encoder: BertConfig) -> int:
    """Returns the tokens in rows of question answering, if any; else 512."""
    longest = QATask.DEFAULT_LENGTH
    if not _has_qa_task(config):
        return longest
    room = min(longest, encoder.max_position_embeddings)
    return config.task.max_seq_length or room


def _has_qa_task(config: FinetuningConfig) -> bool:
    is_custom = config.columns.task_kind == "qa"
    return is_custom or any(name in TASKS for name in config.task.task_names)


def _check_has_checkpoint(config: FinetuningConfig) -> None:
    """Refuses a model directory that holds no checkpoint of any format."""
    names = ("*.index", "*.safetensors", "*/*.safetensors")
    directory = pathlib.Path(config.run.model_dir)
    if not any(any(directory.glob(name)) for name in names):
        raise UserError(
            f"{directory} holds no checkpoint: pre-train an encoder first, or "
            "set --init_checkpoint."
        )
