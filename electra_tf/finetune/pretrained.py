"""The encoder that fine-tuning starts from, whatever wrote it."""

import dataclasses
import pathlib

from electra_tf.checkpoint import checkpoint_formats
from electra_tf.checkpoint.weights import (
    ENCODER,
    Weights,
    select,
    without_slots,
)
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.util.errors import UserError


def read(config: FinetuningConfig) -> Weights:
    """Reads the encoder of the model directory, or of `init_checkpoint`.

    Returns:
      The encoder's weights, without any head, with its vocabulary, its dropout
      in pre-training and what the tokenizer does to case and accents.

    Raises:
      UserError: if there is none, or no vocabulary for it.
    """
    path = config.training.init_checkpoint or config.run.model_dir
    if not config.training.init_checkpoint:
        _check_is_there(config)
    vocab_file = config.task.vocab_file
    loaded = checkpoint_formats.read(path, vocab_file=vocab_file)
    weights = without_slots(select(loaded, ENCODER))
    if weights.vocabulary is None:
        raise UserError(
            "The encoder's vocabulary must be known. Received: none beside "
            f"{weights.origin}. Set --vocab_file."
        )
    task = config.task
    return dataclasses.replace(
        weights,
        do_lower_case=_switch(task.do_lower_case, weights.do_lower_case),
        strip_accents=_switch(task.strip_accents, weights.strip_accents),
    )


def tokenizer(weights: Weights) -> TextTokenizer:
    """Makes the tokenizer of an encoder that `read` returned."""
    return TextTokenizer(
        weights.vocabulary, weights.do_lower_case, weights.strip_accents
    )


def _check_is_there(config: FinetuningConfig) -> None:
    """Refuses a model directory that holds no checkpoint of any format."""
    run, names = config.run, ("*.index", "*.safetensors", "*/*.safetensors")
    directory = pathlib.Path(run.model_dir)
    if not any(any(directory.glob(name)) for name in names):
        kind = "no checkpoint in it" if directory.is_dir() else "none"
        raise UserError(
            f"{directory} must hold a pre-trained encoder. Received: {kind}. "
            "Pre-train one first, with python -m electra_tf.run_pretraining "
            f"--data_dir={run.data_dir} --model_name={run.model_name}, or set "
            "--init_checkpoint to one."
        )


def _switch(given: str, told: bool | None) -> bool:
    """Returns what is given, else what a file tells, else true."""
    if given == "auto":
        return told is not False
    return given == "true"
