"""The configuration of fine-tuning; needs no TensorFlow.

A `FinetuningConfig` is made of parts, one for each concern. Every field of a
part is a flag of the same name, and its docstring is the flag's help. Names are
the original's wherever `configure_finetuning.py` has them; defaults
are the paper's, Table 7, which differ from the original's where said.
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from electra_tf.config.columns import ColumnsConfig, QAConfig
from electra_tf.config.model import BertConfig
from electra_tf.config.optimizer import ComputeConfig, ModelDirConfig
from electra_tf.config.optimizer import (
    FinetuningOptimizerConfig as OptimizerConfig,
)
from electra_tf.util import files
from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, bounded, one_of, required, some_of

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(ModelDirConfig):
    """Steps of a run, and its directories."""

    model_name: str = required()
    """Run <data_dir>/models/<model_name> to fine-tune. Required."""
    do_train: bool = True
    """Train the trials: unfinished ones resume, finished ones are kept."""
    do_eval: bool = True
    """Evaluate on the dev split, during training and for the report."""
    num_trials: int = bounded(1, 1)
    """Number of trials, each a training under its own seed."""
    write_test_outputs: bool = False
    """Predict the test splits, score those with labels, and write the files
    that GLUE's server takes."""
    n_writes_test: int = bounded(5, 0)
    """Number of trials whose test predictions are written."""
    test_file: str = ""
    """Test rows of a custom task, to predict; scored if all have labels.
    Default: test.* beside the training rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if files.is_remote(self.data_dir):
            raise UserError(
                f"Fine-tuning needs a local data_dir: {self.data_dir}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskConfig(Checked):
    """Tasks, their rows and heads."""

    task_names: tuple[str, ...] = ()
    """The task, such as cola or mnli, or any name for a custom task. Several,
    comma-separated, share an encoder and are learned together. Required."""
    max_seq_length: int | None = bounded(None, 8)
    """Maximum tokens in a row. Longer texts and pairs are cut; contexts and
    tagged sentences are read in windows. Default: 128 for texts and pairs, 256
    for tagging, 512 for question answering."""
    double_unordered: bool = True
    """Train on both orders of each pair in tasks where order is irrelevant."""
    head: str = one_of("electra", "hugging_face")
    """Output layers: the original's, or Hugging Face's."""
    skip_bad_rows: bool = False
    """Skip and count rows that cannot be read, instead of failing."""
    max_train_examples: int = bounded(0, 0)
    """Maximum examples of each task, sampled by `seed`; 0 for all."""
    vocab_file: str = ""
    """The vocabulary. Default: the one the checkpoint was trained with."""
    do_lower_case: str = one_of("auto", "true", "false")
    """Lower-case the text; auto: as in pre-training if known, else unless
    the vocabulary has capitals."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.task_names
        if not names or len(set(names)) < len(names):
            raise UserError(f"task_names={','.join(names)}: name each once.")
        if bad := [name for name in names if not _NAME.fullmatch(name)]:
            raise UserError(f"{bad[0]!r} is not the name of a task.")

    @property
    def task_name(self) -> str:
        """The task; the names of several with + between, as in cola+sst."""
        return "+".join(self.task_names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """Length, batch size, seed and restarts of a training."""

    task_sampling_alpha: float = bounded(1.0, 0, 1)
    """Each of several tasks gets a share of the updates proportional to (rows
    times epochs)^alpha: 1 is proportional, 0 the same share for all."""
    num_train_epochs: float | None = bounded(None, 0)
    """Times each row is seen. Default: 10 for rte and sts, 2 for qa, else 3;
    with a hidden size below 256, up to 10 until update 1,000."""
    train_batch_size: int = bounded(32, 1)
    """Rows per update, over all replicas and micro-batches."""
    hidden_dropout_prob: float | None = bounded(None, 0, 1)
    """Dropout rate of hidden states. Default: pre-training's, or 0.1 if 0."""
    attention_probs_dropout_prob: float | None = bounded(None, 0, 1)
    """Dropout of attention weights. Default: pre-training's, or 0.1 if 0."""
    precision: str = one_of("float32", "bfloat16")
    """Precision of the encoder's products; everything else is float32."""
    seed: int = bounded(0, 0)
    """Seed of the first trial's head, row order and dropout; others add 1."""
    init_checkpoint: str = ""
    """Start from this encoder, not the one of `model_name`: a checkpoint of
    the original or of electra_tf, or a directory of Hugging Face."""
    checkpoint: str = one_of("best", "last")
    """Final weights of a trial: of the best evaluation on dev (of
    ties the lower loss), or the last."""
    early_stopping: int = bounded(0, 0)
    """Stop after this many evaluations without a better score; 0 for never."""
    max_restarts: int = bounded(2, 0)
    """Restarts, under other seeds, of a trial that gives the same answer to all
    dev rows although their labels differ."""

    def dropouts(self, encoder: BertConfig) -> dict[str, float]:
        """Returns the given rates; defaults depend on the encoder's."""
        rates = {}
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            given = getattr(self, name)
            default = getattr(encoder, name) or 0.1
            rates[name] = default if given is None else given
        return rates


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeConfig(ComputeConfig):
    """Settings that do not change the result of fine-tuning."""

    eval_batch_size: int = bounded(64, 1)
    """Rows per batch in evaluation and prediction."""
    iterations_per_loop: int = bounded(100, 1)
    """Updates between two log lines."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningConfig(Checked):
    """Trials of fine-tuning on one task, or on several together."""

    run: RunConfig
    task: TaskConfig
    columns: ColumnsConfig = ColumnsConfig()
    qa: QAConfig = QAConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    original_behaviour: tuple[str, ...] = some_of(
        "clip_norm", "lr_layer_decays", "spans"
    )
    """Do as the original does: clip_norm: the norm of word embeddings is over
    the looked-up rows; lr_layer_decays: the layerwise decay applies twice
    between the head and the top layer; spans: of tags, a span continues where
    their kind changes."""

    FREE_PARTS: ClassVar[frozenset[str]] = frozenset({"run", "runtime"})
    """Parts that may change when a run resumes; the others define it."""

    ORIGINAL_NAMES: ClassVar[Mapping[str, Mapping[Any, Mapping[str, Any]]]] = {
        "use_tpu": {True: {"strategy": "tpu"}, False: {}},
        "debug": {False: {}},
    }
    """Translates hyperparameters of the original that have no flag of their
    name here, for --hparams: name -> value -> flags."""

    def __post_init__(self) -> None:
        super().__post_init__()
        training = self.training
        needs_dev = training.checkpoint == "best" or training.early_stopping
        if self.run.do_train and needs_dev and not self.run.do_eval:
            raise UserError(
                "Without do_eval, set --checkpoint=last --early_stopping=0."
            )

    def trial_dir(self, trial: int, restart: int) -> str:
        """Returns the directory of a trial, numbered from 1."""
        name = f"{self.task.task_name}_model_{trial}"
        name += f"_restart_{restart}" * bool(restart)
        return os.path.join(self.run.model_dir, "finetuning_models", name)
