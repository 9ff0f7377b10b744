"""Optimizers, trainings, and the machines they run on.

Names are the original's wherever it has them. Defaults of fine-tuning are those
of the paper's Table 7; where the original's differ, the field says so.
"""

import dataclasses
import os
import re
from typing import NamedTuple

from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, bounded, one_of, required


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Checked):
    """Pre-training: optimizer, decoupled weight decay and learning rate."""

    optimizer: str = one_of("adam", "muon")
    """Adam as the original's, or Muon for the kernels inside the blocks and
    Adam for the rest: small encoders learn more from an update."""
    learning_rate: float = bounded(5e-4, 0)
    """Peak learning rate."""
    generator_learning_rate: float | None = bounded(None, 0)
    """That of the generator's own weights. Default: `learning_rate`."""
    weight_decay_rate: float = bounded(0.01, 0)
    """Decoupled weight decay times learning rate, of all weights but biases and
    layer normalization."""
    num_warmup_steps: int = bounded(10_000, 0)
    """Updates in which the learning rate rises linearly from 0."""
    lr_decay_power: float = bounded(1.0, 0)
    """Power of the polynomial decay of the learning rate to 0; 1 is linear."""
    adam_beta2: float = bounded(0.999, 0, 1)
    """Decay rate of Adam's second moment, per update."""


class Rates(NamedTuple):
    """Fine-tuning learning rates for a size of the encoder."""

    learning_rate: float
    layerwise_lr_decay: float


RATES = {
    "tiny": Rates(1e-3, 0.8),
    "small": Rates(3e-4, 0.8),
    "base": Rates(1e-4, 0.8),
    "large": Rates(5e-5, 0.9),
}
"""The paper's Table 7; "tiny", for encoders narrower than its Small (256), was
tuned on SST-2 and chunking."""


def default_epochs(
    usual: float, hidden_size: int, updates_per_epoch: float
) -> float:
    """Returns the epochs of a training of which no number was given.

    Encoders narrower than 256 get 1,000 updates, within 10 epochs.
    """
    if hidden_size >= 256:
        return usual
    return max(usual, min(10.0, 1000 / updates_per_epoch))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningOptimizerConfig(Checked):
    """Fine-tuning: a learning rate for each layer."""

    model_size: str = one_of("auto", *RATES)
    """Model size whose default rates are used; auto chooses by width: tiny
    below 256, small below 768, base below 1024, else large."""
    learning_rate: float | None = bounded(None, 0)
    """Peak learning rate of the head. Default: 1e-3 (tiny), 3e-4 (small), 1e-4
    (base) or 5e-5 (large); the original has 1e-4 for small."""
    layerwise_lr_decay: float | None = bounded(None, 0, 1)
    """Learning rate of a layer as a fraction of the layer above's.
    Default: 0.8; 0.9 for large."""
    weight_decay_rate: float = bounded(0.0, 0)
    """Decoupled weight decay times learning rate; the original has 0.01."""
    warmup_proportion: float = bounded(0.1, 0, 1)
    """Share of the updates in which the learning rate rises from 0."""

    def rates(self, hidden_size: int) -> Rates:
        """Returns the given rates; defaults depend on the encoder's width."""
        widths = {256: "tiny", 768: "small", 1024: "base"}
        wider = (size for width, size in widths.items() if hidden_size < width)
        size = self.model_size
        default = RATES[next(wider, "large") if size == "auto" else size]
        return Rates(
            self.learning_rate or default.learning_rate,
            self.layerwise_lr_decay or default.layerwise_lr_decay,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelDirConfig(Checked):
    """The directory of a pre-trained model."""

    data_dir: str = required()
    """Root directory of vocabulary, data and models. Required."""
    model_name: str = required()
    """Name of the run's directory, <data_dir>/models/<model_name>. Required."""

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.model_name
        if name in (".", "..") or re.search("[/\0]", name):
            raise UserError(f"model_name={name!r} is not a directory's name.")

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints, logs and results."""
        return os.path.join(self.data_dir, "models", self.model_name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """Data, length, batch size, precision and seed of a pre-training."""

    num_train_steps: int = bounded(1_000_000, 1)
    """Number of updates."""
    train_batch_size: int = bounded(128, 1)
    """Rows in an update, over all replicas and micro-batches."""
    precision: str = one_of("float32", "bfloat16")
    """Precision of the matrix products; everything else is float32."""
    seed: int = bounded(0, 0)
    """Seed of initial weights, data order, masking, sampling and dropout."""
    pretrain_tfrecords: str = ""
    """Comma-separated globs of the training records of `max_seq_length` tokens;
    other phases append _<length> to the directory. Default:
    <data_dir>/pretrain_tfrecords/pretrain_data.tfrecord*."""
    eval_tfrecords: str = ""
    """Comma-separated globs of the held-out records. Default:
    <data_dir>/pretrain_tfrecords/held_out_data.tfrecord*."""
    shift_positions: bool = False
    """Train shorter rows at random offsets; all positions learn."""
    init_checkpoint: str = ""
    """Start from the weights, Adam's slots and step of a checkpoint of the
    original, of ours or of Hugging Face; or of two, comma-separated, the
    discriminator's first."""
    generator_checkpoint: str = ""
    """Start the generator from that, or the masked language model, of this
    checkpoint instead of `init_checkpoint`."""
    reset_step: bool = False
    """Count updates from 0 after `init_checkpoint`, whose slots are kept."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeConfig(Checked):
    """Devices, speed, memory and checkpoints of any training."""

    gradient_accumulation_steps: int = bounded(1, 1)
    """Micro-batches in an update; more of them need less memory."""
    save_checkpoints_steps: int = bounded(1000, 1)
    """Updates between two checkpoints."""
    strategy: str = one_of("auto", "one", "mirrored", "multi_worker", "tpu")
    """One device, all GPUs of this machine, the machines of TF_CONFIG, or the
    TPU of one machine; auto: TF_CONFIG, else all GPUs, else one device."""
    jit_compile: str = one_of("auto", "true", "false")
    """Compile updates and evaluation with XLA; auto: on accelerators."""
    recompute: bool = False
    """Recompute each block in the backward pass: less memory, more time."""
    deterministic: bool = False
    """Use only deterministic operations, for the same bits on a GPU."""
    tensorboard: bool = False
    """Also write TensorBoard event files; needs the extra [tensorboard]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeConfig(ComputeConfig):
    """Settings of pre-training that may differ when a run is resumed."""

    num_processes: int = bounded(0, 0)
    """Processes that build records; 0 for one per core."""
    eval_batch_size: int = bounded(128, 1)
    """Rows in a batch of evaluation, over all replicas."""
    num_eval_steps: int = bounded(0, 0)
    """Number of evaluation batches; 0 for every held-out record."""
    iterations_per_loop: int = bounded(200, 1)
    """Updates between two lines of the logs."""
    keep_checkpoint_max: int = bounded(5, 0)
    """Number of newest checkpoints to keep; 0 for all."""
