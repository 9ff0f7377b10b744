"""Base class of the objectives: one update from one global batch.

An objective subclasses `PretrainingModel`, builds its networks in `__init__`,
declares its losses (`declare_losses`), and writes `forward` and `measure`. Its
traits are in `config/objective_traits.py`. The random keys are made here;
micro-batches, the sum over replicas, the division and the clip are those of
`training/updates.py`.
"""

import abc
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers, optimization, schedules, tensor_ops
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.random_keys import RandomKeys, TrainingKeys
from electra_tf.training.updates import Metrics, UpdatedModel
from electra_tf.util import seeds

Rate = keras.optimizers.schedules.LearningRateSchedule


class Detection(NamedTuple):
    """A discriminator's verdict on a batch.

    Shapes: logits [B, L], labels [B, L], judged [B, L].
    """

    logits: tf.Tensor
    labels: tf.Tensor
    judged: tf.Tensor


class PretrainingModel(UpdatedModel):
    """Base class of a model with its losses."""

    config: PretrainingConfig

    def __init__(
        self, config: PretrainingConfig, vocabulary: Vocabulary
    ) -> None:
        super().__init__(config.training.precision)
        self.check(config)
        self.config = config
        self.vocabulary = vocabulary
        declared = self.declare_losses()
        self.loss_weights = {k: loss.weight for k, loss in declared.items()}
        self._divisors = {k: loss.over for k, loss in declared.items()}

    @property
    def policy(self) -> str:
        """The Keras dtype policy of every encoder."""
        return layers.POLICIES[self.config.training.precision]

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Refuses settings that the objective does not support."""

    @classmethod
    def batch_group_size(cls, config: PretrainingConfig) -> int:
        """Returns the size of groups of consecutive rows that stay together."""
        del config
        return 1

    @abc.abstractmethod
    def declare_losses(self) -> dict[str, Loss]:
        """Returns the losses by name: weight, value at chance, divisor."""

    @abc.abstractmethod
    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Does a forward pass.

        Shapes: keys [B].
        """

    @abc.abstractmethod
    def measure(self, forward_pass: ForwardPass) -> Metrics:
        """Computes every loss and metric of a forward pass."""

    def compute_losses(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> Metrics:
        return self.measure(self.forward(inputs, keys=keys, training=training))

    def loss_denominators(
        self, inputs: Inputs, *, keys: RandomKeys
    ) -> dict[str, tf.Tensor]:
        counts = self.counts(inputs, keys)
        return {name: counts[over] for name, over in self._divisors.items()}

    def counts(self, inputs: Inputs, keys: RandomKeys) -> dict[str, tf.Tensor]:
        """Counts the items that losses are means over, float32 scalars by
        name."""
        masked = self.mask(inputs, keys)
        marks = {
            "masked": masked.weights,
            "judged": self._judged(inputs, masked),
            "real": inputs.is_real,
            "predictable": pretrain_helpers.candidates_mask(
                inputs, self.vocabulary
            ),
            "rows": tf.reduce_any(inputs.is_real, -1),
        }
        return {
            name: tf.reduce_sum(tf.cast(mark, tf.float32))
            for name, mark in marks.items()
        }

    def mask(self, inputs: Inputs, keys: RandomKeys) -> Masked:
        """Chooses tokens and masks them, as the configuration says."""
        return pretrain_helpers.mask(
            inputs, self.config.masking, vocabulary=self.vocabulary, keys=keys
        )

    def _judged(self, inputs: Inputs, masked: Masked) -> tf.Tensor:
        """Returns float32 [B, L]: 1 where the verdict has a loss."""
        del masked
        return tf.cast(inputs.is_real, tf.float32)

    def evaluation_step(
        self, inputs: Inputs, *, keys: RandomKeys
    ) -> tuple[Metrics, Detection | None]:
        """Computes the metrics without dropout, and the tokens' verdicts."""
        return self.evaluated(self.forward(inputs, keys=keys, training=False))

    def evaluated(
        self, forward_pass: ForwardPass
    ) -> tuple[Metrics, Detection | None]:
        """Returns the metrics of a forward pass, and its verdicts if any."""
        metrics, verdicts = self.measure(forward_pass), forward_pass.disc_logits
        if verdicts is None:
            return metrics, None
        judged = self._judged(forward_pass.inputs, forward_pass.masked)
        return metrics, Detection(
            verdicts,
            forward_pass.fake.is_fake_tokens,
            tf.cast(judged, tf.int32),
        )

    def make_optimizer(self) -> optimization.AdamWeightDecayOptimizer:
        """Makes the optimizer of the configuration, with its slots built."""
        config = self.config.optimizer
        optimizer = optimization.AdamWeightDecayOptimizer(
            self.learning_rate(),
            config.weight_decay_rate,
            config.adam_beta1,
            config.adam_beta2,
            config.adam_epsilon,
            rates=self.learning_rates(),
        )
        optimizer.build(self.trainable_variables)
        return optimizer

    def learning_rate(self) -> Rate:
        """Returns the schedule of the configuration."""
        return self.schedule(self.config.training.num_train_steps)

    def learning_rates(self) -> dict[str, float | Rate]:
        """Returns path -> factor of the rate, for variables that have one."""
        return {}

    def schedule(self, num_steps: int) -> Rate:
        """Makes a learning rate schedule."""
        config = self.config.optimizer
        return schedules.WarmupPolynomialDecay(
            config.learning_rate,
            num_steps,
            config.num_warmup_steps,
            config.lr_decay_power,
            ahead=int(config.original_lr_step),
        )

    def update(self, inputs: Inputs) -> Metrics:
        """Does one update and returns the sums over the global batch."""
        num_rows = tensor_ops.shape_of(inputs.input_ids)[0]
        step = self.optimizer.iterations
        keys = seeds.batch_keys(self.config.training.seed, step, num_rows)
        num_steps = self.config.training.num_train_steps
        progress = tf.cast(step, tf.float32) / num_steps
        progress = tf.fill([num_rows], tf.minimum(progress, 1.0))
        keys = TrainingKeys(keys, progress)
        return self.update_with_keys(inputs, keys=keys)
