"""The configuration of updates, and of the machine they run on.

Pre-training and fine-tuning share `ModelDirConfig` and `ComputeConfig`; the
other parts are for pre-training. It needs no TensorFlow.
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
    """Root directory of vocabulary, data and models. Required."""

    model_name: str = ""
    """Name of the run's directory, <data_dir>/models/<model_name>. Required."""

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
    """Number of updates."""

    train_batch_size: int = bounded("at least 1", 128)
    """Rows in an update, over all replicas and micro-batches; a phase of
    `seq_length_phases` may override it."""

    precision: str = one_of("float32", "bfloat16")
    """Precision of the matrix products of encoders and heads; everything else
    is float32, including weights, sums and files."""

    seed: int = bounded("at least 0", 0)
    """Seed of initial weights, data order, masking, sampling and dropout."""

    shift_positions: bool = False
    """Shift the positions of rows that are shorter than `max_seq_length`, as
    those of `seq_length_phases` are, by a random number in training, so that
    all positions are trained from the start."""

    init_checkpoint: str = ""
    """Start from the weights, Adam's slots and step of this checkpoint: one of
    the original or ours (its path without the extension, or its directory), or
    a Hugging Face directory; or two, comma-separated, the discriminator's
    first."""

    generator_checkpoint: str = ""
    """Start the generator, its embeddings and its head from the generator or
    the masked language model of this checkpoint; takes precedence over
    `init_checkpoint`. Its slots and step are not taken."""

    init_partially: bool = False
    """Initialize weights that `init_checkpoint` lacks at random, and ignore
    those that the objective does not have."""

    reset_step: bool = False
    """Count updates from 0 after `init_checkpoint`, whose slots are kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("init_partially", "reset_step"):
            if getattr(self, name) and not self.init_checkpoint:
                raise UserError(
                    f"`{name}` is read only with --init_checkpoint. Received: "
                    f"{name}=True without it. Set --init_checkpoint, or leave "
                    f"--{name} out."
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeConfig(Checked):
    """Devices, speed, memory and checkpoints of any training."""

    gradient_accumulation_steps: int = bounded("at least 1", 1)
    """Micro-batches in an update; more of them need less memory."""

    save_checkpoints_steps: int = bounded("at least 1", 1000)
    """Updates between two checkpoints."""

    strategy: str = one_of("auto", "one", "mirrored", "multi_worker", "tpu")
    """Devices: one device, all GPUs of this machine (mirrored), the machines of
    TF_CONFIG (multi_worker), or the TPU of one machine; auto: multi_worker with
    a TF_CONFIG of several machines, else all GPUs, else one device."""

    join_timeout: int = bounded("at least 1", 120)
    """Seconds to wait for the other machines of TF_CONFIG to start."""

    heartbeat_timeout: int = bounded("at least 10", 30)
    """Seconds of silence after which another machine of TF_CONFIG counts as
    lost, and the run ends."""

    jit_compile: str = one_of("auto", "true", "false")
    """Compile updates and evaluation with XLA; auto: where that is faster, on
    accelerators."""

    recompute: bool = False
    """Store only the inputs of each Transformer block and recompute the block
    in the backward pass: less memory, more time, the same losses."""

    tensor_float_32: bool = True
    """Let GPUs round the factors of float32 matrix products to 10 bits of
    mantissa, which is faster and TensorFlow's own default. It rounds the
    probabilities that tokens are sampled with, too. No effect on CPUs."""

    deterministic: bool = False
    """Use only deterministic operations, so that the same command gives the
    same bits on a GPU, where sums are otherwise taken in any order. This may
    cost speed; on CPUs the bits are the same without it, and it costs
    nothing."""

    tensorboard: bool = False
    """Also write TensorBoard event files beside the logs; needs the extra
    [tensorboard]."""

    keep_memory: bool = True
    """Keep freed memory for the next update instead of returning it to the
    system, which is faster. Only with the GNU C library."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeConfig(ComputeConfig):
    """Settings of pre-training that may differ when a run is resumed."""

    num_processes: int = bounded("at least 0", 0)
    """Processes that build records; 0 for one per core. --packing=original uses
    one."""

    eval_batch_size: int = bounded("at least 1", 128)
    """Rows in a batch of evaluation, over all replicas."""

    num_eval_steps: int = bounded("at least 0", 0)
    """Number of evaluation batches; 0 for every held-out record."""

    iterations_per_loop: int = bounded("at least 1", 200)
    """Updates between two lines of the logs."""

    keep_checkpoint_max: int = bounded("at least 0", 5)
    """Number of newest checkpoints to keep; 0 for all."""

    checkpoint_milestones: tuple[float, ...] = (0.0625, 0.125, 0.25, 0.5)
    """Fractions of the training at which a checkpoint is kept for ever,
    comma-separated."""

    generator_accuracy_limit: float = 0.6
    """Accuracy of the generator's samples above which the run warns that the
    generator is too strong. The paper's Large reaches about 0.6."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self,
            "checkpoint_milestones",
            "fractions in (0, 1]",
            lambda fractions: all(0 < x <= 1 for x in fractions),
        )
