"""The configuration of updates, and of the machine they run on.

`ModelDirConfig` and `ComputeConfig` are what pre-training and fine-tuning have
in common; the other parts are pre-training's. It needs no TensorFlow.
"""

import dataclasses
import os
import re

from electra_tf.util.config_fields import (
    Checked,
    bounded,
    one_of,
    require,
    required,
)
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelDirConfig(Checked):
    """The directory of a pre-trained model."""

    data_dir: str = required("name a directory")
    """Root of vocabulary, data and models. Required."""

    model_name: str = ""
    """Names the directory <data_dir>/models/<model_name>. Required."""

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.model_name
        if name in ("", ".", "..") or re.search("[/\0]", name):
            raise UserError(
                "`model_name` must be the name of a directory inside "
                f"<data_dir>/models. Received: model_name={name!r}. Set "
                "--model_name, for example to electra_small."
            )

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints, logs and results."""
        return os.path.join(self.data_dir, "models", self.model_name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """Length, batch size, precision and seed of a training."""

    num_train_steps: int = bounded("at least 1", 1_000_000)
    """Updates."""

    train_batch_size: int = bounded("at least 1", 128)
    """Rows in an update, over all replicas and micro-batches; a phase of
    `seq_length_phases` may have its own number."""

    precision: str = one_of("float32", "bfloat16", "float16")
    """Of the matrix products of encoders and heads; all else is float32,
    weights, sums and files included. float16 scales the loss and skips
    updates whose gradients overflow; it is for GPUs without bfloat16."""

    seed: int = bounded("at least 0", 0)
    """Seed of initial weights, data order, masking, sampling and dropout."""

    init_checkpoint: str = ""
    """Start from these weights, Adam's slots and step: a checkpoint of the
    original or ours (its path without the ending, or its directory), or
    Hugging Face's directory; two with a comma between, the discriminator's
    first."""

    generator_checkpoint: str = ""
    """Start the generator, its embeddings and its head from the generator or
    the masked language model of this checkpoint; takes precedence over
    `init_checkpoint`. Its slots and step are not taken."""

    init_partially: bool = False
    """Let weights that `init_checkpoint` lacks start at random, and leave out
    those that the objective has no place for."""

    reset_step: bool = False
    """Count updates from 0 after `init_checkpoint`, whose slots are kept."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeConfig(Checked):
    """Settings that change the speed of any training but not its result."""

    gradient_accumulation_steps: int = bounded("at least 1", 1)
    """Micro-batches in an update: more of them need less memory."""

    save_checkpoints_steps: int = bounded("at least 1", 1000)
    """Updates between two checkpoints."""

    strategy: str = one_of("auto", "one", "mirrored", "multi_worker", "tpu")
    """Devices: one device, all GPUs of this machine, the machines of
    TF_CONFIG, or a TPU; auto takes what it finds."""

    join_timeout: int = bounded("at least 1", 120)
    """Seconds to wait for the other machines of TF_CONFIG to start."""

    jit_compile: str = one_of("auto", "true", "false")
    """Compile updates and evaluation with XLA; auto where that is faster."""

    recompute: bool = False
    """Keep only the inputs of each Transformer block and compute the block
    again in the backward pass: less memory, more time, the same losses."""

    tensor_float_32: bool = True
    """Let GPUs round factors of float32 matrix products to 10 bits of
    mantissa, which is faster; TensorFlow's own default. CPUs know nothing of
    it."""

    deterministic: bool = False
    """Use deterministic operations alone: the same command gives the same bits
    on a GPU, too, where sums otherwise have any order. It may cost speed
    there; on CPUs it costs none, and the bits are the same without it."""

    skip_nonfinite_updates: int = bounded("at least 0", 0)
    """Skip updates whose loss or gradient is infinite or no number, up to so
    many in a row: weights stay as they are, the step counts. At 0 the first
    of them ends the run."""

    tensorboard: bool = False
    """Write TensorBoard event files too, beside the logs; needs
    [tensorboard]."""

    keep_memory: bool = True
    """Keep freed memory for the next update instead of returning it to the
    system, which is faster. Of the GNU C library."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeConfig(ComputeConfig):
    """Settings of pre-training that change nothing of its result."""

    num_processes: int = bounded("at least 0", 0)
    """Processes that build records; 0: one a core."""

    skip_corrupt_records: bool = False
    """Train on without records that are damaged: each is replaced by another
    one of its file, so that the order of all others stays. Otherwise the first
    of them ends the run."""

    verify_records: bool = False
    """Read and verify all records before training, also those that were
    verified before and have not changed since, and however large they are."""

    eval_batch_size: int = bounded("at least 1", 128)
    """Rows in a batch of evaluation, over all replicas."""

    num_eval_steps: int = bounded("at least 0", 0)
    """Batches of evaluation; 0 for every held-out record."""

    iterations_per_loop: int = bounded("at least 1", 200)
    """Updates between two lines of the logs; with several workers signals
    wait for as many."""

    keep_checkpoint_max: int = bounded("at least 0", 5)
    """Newest checkpoints that are kept; 0 for all."""

    checkpoint_milestones: tuple[float, ...] = (0.0625, 0.125, 0.25, 0.5)
    """Fractions of the training at which a checkpoint is kept for ever,
    comma-separated."""

    generator_accuracy_limit: float = 0.6
    """Share of right samples over which the run warns that the generator is
    too good. The paper's Large reaches about 0.6."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self,
            "checkpoint_milestones",
            "fractions in (0, 1]",
            lambda fractions: all(0 < x <= 1 for x in fractions),
        )
