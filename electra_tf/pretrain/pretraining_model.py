"""Base class of the objectives: one update from one global batch.

An objective subclasses `PretrainingModel`, builds its networks
(`build_networks`), declares its losses (`declare_losses`), and writes `forward`
and `measure`; its class attributes and `passes` say what it needs. The rest of
an update, from micro-batches to the clip, is in `training/updates.py`.
"""

import abc
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers, optimization, schedules, tensor_ops
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.random_keys import RandomKeys, TrainingKeys
from electra_tf.training.updates import Metrics, UpdatedModel
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

Rate = keras.optimizers.schedules.LearningRateSchedule


class Detection(NamedTuple):
    """A discriminator's verdicts on a batch, all [B, L]."""

    logits: tf.Tensor
    labels: tf.Tensor
    judged: tf.Tensor


class PretrainingModel(UpdatedModel):
    """Base class of a model with its losses."""

    token_output = "verdicts"
    """Output of the main network for each token: "verdicts" (replaced or not),
    "energies", "words" (the original token), or "" for a masked LM."""

    has_own_generator = True
    """True if the generator is a network beside the main encoder."""

    generator_types = ("transformer", "uniform", "unigram")
    """Supported values of `generator_type`."""

    can_freeze = False
    """True if `freeze_generator` may be set."""

    has_row_loss = False
    """True if there is a loss on whole rows: a row must be one text."""

    config: PretrainingConfig

    def __init__(
        self, config: PretrainingConfig, vocabulary: Vocabulary
    ) -> None:
        super().__init__()
        self.check(config)
        self.config = config
        self.vocabulary = vocabulary
        self.switch_step = self.generator_steps(config)
        declared = self.declare_losses()
        self.loss_weights = {k: loss.weight for k, loss in declared.items()}
        self._divisors = {k: loss.over for k, loss in declared.items()}
        if any(config.objective.disc_weight_steps) and (
            "disc_loss" not in declared or self.switch_step
        ):
            raise UserError(
                "disc_weight_steps needs a disc_loss from the first update on."
            )
        self.build_networks(config.model.discriminator(vocabulary.size))
        self.built = True

    @property
    def policy(self) -> str:
        """The Keras dtype policy of every encoder."""
        return layers.POLICIES[self.config.training.precision]

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Refuses settings that the objective does not support."""
        sharing = config.model.generator_sharing
        kind, is_frozen = cls.generator_type(config), cls.is_frozen(config)
        kinds = ("transformer",) if is_frozen else cls.generator_types
        has_weights = kind in ("transformer", "two_tower") and sharing != "all"
        is_trained = has_weights and cls.has_own_generator and not is_frozen
        has_rate = config.optimizer.generator_learning_rate is not None
        refused = {
            f"generator_type={kind}": kind not in kinds,
            "freeze_generator": config.objective.freeze_generator
            and not cls.can_freeze,
            f"generator_sharing={sharing} with a frozen generator": is_frozen
            and sharing not in ("none", "gradient_disentangled"),
            f"generator_sharing={sharing} with two towers": kind == "two_tower"
            and sharing not in ("embeddings", "none"),
            "generator_learning_rate without a generator that is trained by "
            "itself": has_rate and not is_trained,
            "packing=packed, as its loss is on whole rows": cls.has_row_loss
            and config.corpus.is_packed,
        }
        for what, is_refused in refused.items():
            if is_refused:
                name = config.objective.objective
                raise UserError(f"objective={name} does not support {what}.")

    @classmethod
    def generator_type(cls, config: PretrainingConfig) -> str:
        return config.objective.generator_type

    @classmethod
    def is_frozen(cls, config: PretrainingConfig) -> bool:
        """Returns whether the generator is trained already."""
        return config.objective.freeze_generator

    @classmethod
    def generator_steps(cls, config: PretrainingConfig) -> int:
        """Returns the updates that train the generator alone, the first."""
        return 0

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        """Returns the passes of the last update, by network, for FLOPs."""
        return cls.generator_passes(sizes)

    @classmethod
    def generator_passes(cls, sizes: Sizes) -> dict[str, Pass]:
        """Returns the generator's own pass, if it is a network of its own."""
        kind = cls.generator_type(sizes.config)
        if kind in ("uniform", "unigram") or not cls.has_own_generator:
            return {}
        num_towers, num_predictions = 1, sizes.num_masked
        if kind == "two_tower":
            num_towers, num_predictions = 2, sizes.num_tokens
        generator = sizes.generator(
            num_predictions=num_predictions,
            num_towers=num_towers,
            is_trained=not cls.is_frozen(sizes.config),
        )
        return {"generator": generator}

    @classmethod
    def batch_group_size(cls, config: PretrainingConfig) -> int:
        """Returns the size of groups of consecutive rows that stay together."""
        return 1

    @abc.abstractmethod
    def build_networks(self, bert: BertConfig) -> None:
        """Makes the networks, the main encoder with the given sizes."""

    @abc.abstractmethod
    def declare_losses(self) -> dict[str, Loss]:
        """Returns the losses by name: weight, value at chance, divisor."""

    @abc.abstractmethod
    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Does a forward pass: keys [B]."""

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
        """Counts the items that each loss is a mean over, float32 scalars."""
        masked, vocabulary = self.mask(inputs, keys), self.vocabulary
        marks = {
            "masked": masked.weights,
            "judged": self._judged(inputs, masked),
            "real": inputs.is_real,
            "predictable": pretrain_helpers.candidates_mask(inputs, vocabulary),
            "rows": tf.reduce_any(inputs.is_real, -1),
        }
        return {
            name: tf.reduce_sum(tf.cast(marks[over], tf.float32))
            for name, over in self._divisors.items()
        }

    def mask(self, inputs: Inputs, keys: RandomKeys) -> Masked:
        """Chooses tokens and masks them, as the configuration says."""
        return pretrain_helpers.mask(
            inputs,
            self.config.masking,
            vocabulary=self.vocabulary,
            keys=keys,
            original="masking" in self.config.original_behaviour,
        )

    def _judged(self, inputs: Inputs, masked: Masked) -> tf.Tensor:
        """Returns float32 [B, L]: 1 where the verdict has a loss."""
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
        labels = forward_pass.fake.is_fake_tokens
        return metrics, Detection(verdicts, labels, tf.cast(judged, tf.int32))

    def make_optimizer(self) -> optimization.AdamWeightDecayOptimizer:
        """Makes the optimizer of the configuration, with its slots built."""
        config = self.config.optimizer
        optimizer = optimization.OPTIMIZERS[config.optimizer](
            self.learning_rate(),
            config.weight_decay_rate,
            beta_2=config.adam_beta2,
            rates=self.learning_rates(),
        )
        optimizer.build(self.trainable_variables)
        return optimizer

    def learning_rate(self) -> Rate:
        return self.schedule(self.config.training.num_train_steps)

    def learning_rates(self) -> dict[str, float | Rate]:
        """Returns path -> factor of the rate, for variables that have one."""
        return {}

    def schedule(self, num_steps: int, *, first_step: int = 0) -> Rate:
        """Makes a learning rate schedule that starts at a step."""
        config = self.config.optimizer
        ahead = int("lr_step" in self.config.original_behaviour)
        return schedules.WarmupPolynomialDecay(
            config.learning_rate,
            num_steps,
            config.num_warmup_steps,
            config.lr_decay_power,
            ahead=ahead - first_step,
        )

    def update(self, inputs: Inputs) -> Metrics:
        """Does one update and returns the sums over the global batch."""
        num_rows = tensor_ops.shape_of(inputs.input_ids)[0]
        step = self.optimizer.iterations
        training = self.config.training
        keys = seeds.batch_keys(training.seed, step, num_rows)
        progress = tf.cast(step, tf.float32) / training.num_train_steps
        progress = tf.fill([num_rows], tf.minimum(progress, 1.0))
        return self.update_with_keys(inputs, keys=TrainingKeys(keys, progress))
