"""The configuration of a pre-training run; needs no TensorFlow.

A `PretrainingConfig` is made of parts, one for each concern. Every field of a
part is a flag of the same name, and its docstring is the flag's help. Names and
defaults are the original's wherever its `configure_pretraining.py` has
them.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from electra_tf.config.corpus import CorpusConfig, Phase, plan_phases
from electra_tf.config.model import ModelConfig
from electra_tf.config.objectives import MaskingConfig, ObjectiveConfig
from electra_tf.config.optimizer import (
    ModelDirConfig,
    OptimizerConfig,
    RuntimeConfig,
    TrainingConfig,
)
from electra_tf.util import files
from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, build, leaves, some_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(ModelDirConfig):
    """The run: its directories and its steps."""

    do_train: bool = True
    """Train, resuming from the newest checkpoint if there is one."""
    do_eval: bool = True
    """Evaluate on the held-out records."""
    do_export: bool = True
    """Export the encoder as SavedModels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(Checked):
    """A pre-training run."""

    run: RunConfig
    corpus: CorpusConfig = CorpusConfig()
    masking: MaskingConfig = MaskingConfig()
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    original_behaviour: tuple[str, ...] = some_of(
        "masking", "sampling", "noise_odds", "clip_norm", "lr_step"
    )
    """Do as the original does: masking: select tokens with replacement, 13.8 %
    instead of 15 %; sampling: by Gumbel noise, one number for each word piece;
    noise_odds: of electric, from `mask_prob`, not from the tokens selected in
    each row; clip_norm: of untied word embeddings, over the looked-up rows;
    lr_step: take the learning rate of the next update."""

    FREE_PARTS: ClassVar[frozenset[str]] = frozenset({"run", "runtime"})
    """The parts that may change when a run is resumed; the others define it."""

    ORIGINAL_NAMES: ClassVar[Mapping[str, Mapping[Any, Mapping[str, Any]]]] = {
        "electra_objective": {True: {}, False: {"objective": "mlm"}},
        "electric_objective": {True: {"objective": "electric"}, False: {}},
        "uniform_generator": {True: {"generator_type": "uniform"}, False: {}},
        "two_tower_generator": {
            True: {"generator_type": "two_tower"},
            False: {},
        },
        "untied_generator_embeddings": {
            True: {"generator_sharing": "none"},
            False: {},
        },
        "untied_generator": {True: {}, False: {"generator_sharing": "all"}},
        "keep_checkpoint_max": {None: {"keep_checkpoint_max": 0}},
        "use_tpu": {True: {"strategy": "tpu"}, False: {}},
        "debug": {False: {}},
    }
    """The original's hyperparameters that have no field of their name here,
    for --hparams: name -> value -> fields to set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        strategy = self.masking.masking_strategy
        if "masking" in self.original_behaviour and strategy != "uniform":
            raise UserError(
                f"masking_strategy={strategy} has no original_behaviour."
            )
        longest = self.model.max_position_embeddings
        length = self.corpus.max_seq_length
        if length > longest:
            raise UserError(
                f"max_seq_length={length} is above max_position_embeddings="
                f"{longest}."
            )
        num_pieces = self.runtime.gradient_accumulation_steps
        for phase in self.phases:
            if phase.batch_size % num_pieces:
                raise UserError(
                    f"gradient_accumulation_steps={num_pieces} does not divide "
                    f"a batch of {phase.batch_size} rows."
                )
        shortest = self.corpus.data_sets[0].max_seq_length
        if self.training.shift_positions and shortest == length:
            raise UserError(
                f"shift_positions has no rows below max_seq_length={length}."
            )
        if not self.masking.max_predictions_per_seq(shortest):
            raise UserError(
                f"mask_prob={self.masking.mask_prob} selects no token of "
                f"{shortest}."
            )

    @classmethod
    def from_flags(cls, values: Mapping[str, Any]) -> "PretrainingConfig":
        """Makes a configuration in Python, from flags.

        Args:
          values: flag -> value; the rest are defaults.

        Raises:
          UserError: if a flag does not exist or does not take its value.
        """
        known = {leaf.field.name for leaf in leaves(cls)}
        if unknown := sorted(values.keys() - known):
            raise UserError(f"Not a flag: {', '.join(unknown)}")
        return build(cls, values)

    @property
    def vocab_file(self) -> str:
        """The file of the vocabulary."""
        return self.corpus.vocab_path(self.run.data_dir)

    @property
    def records_dir(self) -> str:
        """The default directory of records, in which they are built."""
        return os.path.join(self.run.data_dir, "pretrain_tfrecords")

    @property
    def records_dirs(self) -> tuple[str, ...]:
        """The default directories of the records of each length."""
        return tuple(
            self.corpus.directory_of(data_set, self.records_dir)
            for data_set in self.corpus.data_sets
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """Vocabulary, records and models, which are never part of the text."""
        models = os.path.dirname(self.run.model_dir)
        return (self.vocab_file, *self.records_dirs, models)

    @property
    def pretrain_tfrecords(self) -> str:
        """Globs of the training records."""
        return self.training.pretrain_tfrecords or self._records(
            "pretrain_data"
        )

    @property
    def eval_tfrecords(self) -> str:
        """Globs of the held-out records."""
        return self.training.eval_tfrecords or self._records("held_out_data")

    def pretrain_tfrecords_of(self, data_set: CorpusConfig) -> str:
        """Returns globs of the training records of one of the data sets."""
        patterns = files.split_patterns(self.pretrain_tfrecords)
        paths = map(os.path.split, patterns)
        return ",".join(
            os.path.join(self.corpus.directory_of(data_set, directory), name)
            for directory, name in paths
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the training, at least one."""
        return plan_phases(
            self.corpus.seq_length_phases,
            num_train_steps=self.training.num_train_steps,
            batch_size=self.training.train_batch_size,
            max_seq_length=self.corpus.max_seq_length,
        )

    @property
    def num_activations(self) -> int:
        """Number of elements in a layer's hidden states for a micro-batch."""
        num_tokens = max(p.batch_size * p.max_seq_length for p in self.phases)
        num_tokens //= self.runtime.gradient_accumulation_steps
        return num_tokens * self.model.discriminator(1).hidden_size

    @property
    def milestones(self) -> frozenset[int]:
        """The updates whose checkpoints are never deleted."""
        steps = self.training.num_train_steps
        return frozenset(max(1, round(steps / part)) for part in (16, 8, 4, 2))

    def _records(self, name: str) -> str:
        directory = files.escape(self.records_dir)
        return os.path.join(directory, f"{name}.tfrecord*")
