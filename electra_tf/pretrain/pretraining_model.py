"""What every objective shares: one update from one global batch.

An objective subclasses `PretrainingModel`, builds its networks in `__init__`
and writes `compute_losses`. Everything else is here: random keys, micro-
batches, the sum over replicas, the division, the clip, the update.
"""

import abc
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import optimization, tensor_ops
from electra_tf.model.losses import LossTerm
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.draws import Keys, TrainingKeys
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util import seeds

Terms = dict[str, LossTerm]
Rate = keras.optimizers.schedules.LearningRateSchedule


class Detection(NamedTuple):
    """A discriminator's verdict on a batch.

    Attributes:
      logits: float32 [B, L]; over 0 means "replaced".
      labels: int32 [B, L], 1 where replaced.
      judged: int32 [B, L], 1 where the verdict counts; never on padding.
    """

    logits: tf.Tensor
    labels: tf.Tensor
    judged: tf.Tensor


class Sums(NamedTuple):
    """What micro-batches and replicas add up.

    Attributes:
      terms: of losses and metrics.
      gradients: one for each trainable variable, dense.
      lookups: of `optimization.lookup_squares`; empty if not asked for.
    """

    terms: Terms
    gradients: list[tf.Tensor]
    lookups: dict[str, tf.Tensor]


class PretrainingModel(keras.Model, abc.ABC):
    """A model that knows its losses.

    Args:
      config: the whole configuration.
      vocabulary: of the data.

    Attributes:
      jit_compile_step: whether forward and backward pass compile with XLA.
      loss_weights: name of a loss -> its factor in the total loss. Names of
        other terms that `compute_losses` returns are metrics.
    """

    loss_weights: dict[str, float]

    def __init__(
        self, config: PretrainingConfig, vocabulary: Vocabulary
    ) -> None:
        super().__init__()
        self.check(config)
        self.config = config
        self.vocabulary = vocabulary
        self.jit_compile_step = False

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Refuses what the objective cannot do, before anything is built.

        Args:
          config: the whole configuration.

        Raises:
          UserError: saying what does not fit, and why.
        """

    @abc.abstractmethod
    def compute_losses(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Terms:
        """Computes every loss and metric of a batch.

        Args:
          inputs: a batch, or a part of it.
          keys: uint32 [B], one random key a row: masks, samples and dropout
            are functions of it. Or draws, see `draws.Keys`.
          training: whether dropout is on.

        Returns:
          Name -> term; sums over the rows given, not divided.
        """

    def evaluation_step(
        self, inputs: Inputs, *, keys: Keys
    ) -> tuple[Terms, Detection | None]:
        """Computes the terms without dropout, and the tokens' verdicts.

        Args:
          inputs: a batch; rows of padding count nothing.
          keys: one random key a row, or draws.

        Returns:
          The terms, and the verdicts if the objective has a discriminator.
        """
        return self.compute_losses(inputs, keys=keys, training=False), None

    def guesses(self) -> dict[str, float]:
        """Returns what losses are while all networks guess.

        Returns:
          Name of a loss -> its mean, nats. `masked_lm_loss`, `cloze_loss` and
          `disc_loss` are known without: ln V, ln V and ln 2.
        """
        return {}

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
        """Returns path -> factor, for variables with a rate of their own."""
        return {}

    def schedule(self, num_steps: int) -> Rate:
        """Makes the learning rate of so many updates.

        Args:
          num_steps: updates, warm-up included.

        Returns:
          The schedule.
        """
        config = self.config.optimizer
        return optimization.WarmupPolynomialDecay(
            config.learning_rate,
            num_steps,
            config.num_warmup_steps,
            config.lr_decay_power,
            ahead=int(config.original_lr_step),
        )

    def train_step(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        """Does one update; the hook that Keras' `fit` calls.

        Args:
          inputs: this replica's rows of the global batch.

        Returns:
          The means over the global batch of every loss and metric, and "loss".
        """
        terms = self.update(Inputs(*inputs))
        logs = {name: term.mean() for name, term in terms.items()}
        return {"loss": self.total_loss(terms), **logs}

    def total_loss(self, terms: Terms) -> tf.Tensor:
        """Returns the weighted sum of the losses' means, float32 scalar."""
        return tf.add_n(
            [
                terms[name].mean() * weight
                for name, weight in self.loss_weights.items()
            ]
        )

    def update(self, inputs: Inputs) -> Terms:
        """Does one update and returns the sums over the global batch.

        Args:
          inputs: this replica's rows of the global batch.

        Returns:
          As `update_with_keys`.
        """
        replica = tf.distribute.get_replica_context()
        num_rows = tensor_ops.shape_of(inputs.input_ids)[0]
        first = replica.replica_id_in_sync_group * num_rows
        step = self.optimizer.iterations
        keys = seeds.row_keys(
            self.config.training.seed, step, tf.range(num_rows) + first
        )
        num_steps = self.config.training.num_train_steps
        progress = tf.cast(step, tf.float32) / num_steps
        progress = tf.fill([num_rows], tf.minimum(progress, 1.0))
        keys = TrainingKeys(keys, progress)
        return self.update_with_keys(inputs, keys=keys)

    def update_with_keys(self, inputs: Inputs, *, keys: Keys) -> Terms:
        """Does one update with the random keys, or draws, that are given.

        Gradients are of the mean over the global batch: summed over micro-
        batches and replicas, then clipped, then applied.

        Args:
          inputs: this replica's rows of the global batch.
          keys: one random key a row, or draws.

        Returns:
          Name -> term, equal on all replicas; "gradient_norm", before the
          clip, is one of them.
        """
        replica = tf.distribute.get_replica_context()
        weights = replica.all_reduce("SUM", self.loss_sizes(inputs, keys=keys))
        sums = self._accumulate(inputs, keys, weights)
        terms, gradients, lookups = replica.all_reduce("SUM", sums)
        norm = optimization.global_norm(
            self.trainable_variables, gradients, lookups
        )
        gradients, _ = tf.clip_by_global_norm(
            gradients, self.config.optimizer.clip_norm, use_norm=norm
        )
        self.optimizer.apply_reduced(gradients)
        return {**terms, "gradient_norm": LossTerm(norm, tf.constant(1.0))}

    def loss_sizes(self, inputs: Inputs, *, keys: Keys) -> dict[str, tf.Tensor]:
        """Computes the weight of each loss's term, which divides its gradient.

        The division comes before the backward pass and needs the sums over
        all replicas and micro-batches. This default runs the forward pass for
        it (in a graph, only what the weights need); an objective that knows
        its weights beforehand overrides it and saves the tracing.

        Args:
          inputs: a batch, or a part of it.
          keys: one random key a row, or draws.

        Returns:
          Name of each loss -> float32 scalar.
        """
        terms = self.compute_losses(inputs, keys=keys, training=True)
        return {name: terms[name].weight for name in self.loss_weights}

    def _accumulate(
        self, inputs: Inputs, keys: Keys, weights: dict[str, tf.Tensor]
    ) -> Sums:
        """Sums terms and gradients over micro-batches."""
        count = self.config.runtime.gradient_accumulation_steps
        forward_backward = self.forward_backward
        if self.jit_compile_step:
            # Not around the whole update: under several replicas XLA cannot
            # reach the variables and sums of the other devices.
            forward_backward = tf.function(forward_backward, jit_compile=True)
        if count == 1:
            return forward_backward(inputs, keys, weights)

        def split(x: tf.Tensor) -> tf.Tensor:
            return tf.reshape(x, [count, -1, *x.shape[1:]])

        parts = tf.nest.map_structure(split, (inputs, keys))

        def run(i: tf.Tensor) -> Sums:
            rows, row_keys = tf.nest.map_structure(lambda x: x[i], parts)
            return forward_backward(rows, row_keys, weights)

        def add(i: tf.Tensor, sums: Sums) -> tuple[tf.Tensor, Sums]:
            return i + 1, tf.nest.map_structure(tf.add, sums, run(i))

        return tf.while_loop(
            lambda i, sums: i < count, add, (tf.constant(1), run(0))
        )[1]

    def forward_backward(
        self, inputs: Inputs, keys: Keys, weights: dict[str, tf.Tensor]
    ) -> Sums:
        """Computes terms and gradients of one micro-batch.

        Args:
          inputs: a batch, or a part of it.
          keys: one random key a row, or draws.
          weights: of `loss_sizes`, over the global batch.

        Returns:
          What adds up to the global batch's terms and gradients.
        """
        variables = [v.value for v in self.trainable_variables]
        with tf.GradientTape() as tape:
            terms = self.compute_losses(inputs, keys=keys, training=True)
            loss = tf.add_n(
                [
                    tf.math.divide_no_nan(
                        terms[name].total * factor, weights[name]
                    )
                    for name, factor in self.loss_weights.items()
                ]
            )
        gradients = tape.gradient(
            loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        lookups = {}
        if self.config.optimizer.original_clip_norm:
            lookups = optimization.lookup_squares(
                self.trainable_variables, gradients
            )
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return Sums(terms, dense, lookups)
