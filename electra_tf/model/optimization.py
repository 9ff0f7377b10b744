"""The original's optimizer: Adam without bias correction, decoupled decay.

Source: the original's model/optimization.py. Gradients are clipped by the
training step, after they are summed over replicas and micro-batches.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

_NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


@keras.saving.register_keras_serializable("electra_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Warms up and decays at once: both factors multiply, as in the original.

    rate(s) = learning_rate * (1 - min(s, T) / T)^power * min(1, s / W), with
    s the updates done, T all updates and W the warm-up. The first update has
    rate 0 if there is a warm-up.

    Args:
      learning_rate: the rate without either factor.
      num_train_steps: T, updates.
      num_warmup_steps: W, updates; 0 for none.
      power: 1 for linear decay, 0 for none.
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int,
        power: float = 1.0,
    ) -> None:
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        total = float(self.num_train_steps)
        rate = self.learning_rate * tf.pow(
            1.0 - tf.minimum(step, total) / total, self.power
        )
        if self.num_warmup_steps:
            rate *= tf.minimum(1.0, step / float(self.num_warmup_steps))
        return rate

    def get_config(self) -> dict:
        return dict(vars(self))


@keras.saving.register_keras_serializable("electra_tf")
class AdamWeightDecayOptimizer(keras.optimizers.Optimizer):
    """Adam without bias correction, with decoupled weight decay.

        m = beta_1 m + (1 - beta_1) g
        v = beta_2 v + (1 - beta_2) g^2
        w = w - rate * (m / (sqrt(v) + epsilon) + weight_decay_rate * w)

    LayerNorm parameters and biases are not decayed.

    Args:
      learning_rate: a number or a schedule.
      weight_decay_rate: share of a weight taken off per unit of rate.
      beta_1: decay of the mean of gradients.
      beta_2: decay of the mean of squared gradients.
      epsilon: added to the root, not under it.
      name: name of the optimizer.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        *,
        name: str = "adam",
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self.means = [
            self.add_variable_from_reference(v, "adam_m") for v in variables
        ]
        self.squares = [
            self.add_variable_from_reference(v, "adam_v") for v in variables
        ]

    def update_step(
        self,
        gradient: tf.Tensor,
        variable: tf.Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        index = self._get_variable_index(variable)
        self._update(
            variable,
            gradient,
            self.means[index].value,
            self.squares[index].value,
            learning_rate,
            self._decay_of(self._trainable_variables[index]),
        )

    def apply_reduced(self, gradients: Sequence[tf.Tensor]) -> None:
        """Updates all variables from gradients that replicas agree on.

        Differs from `apply`, which sums gradients over replicas first: the
        training step has done so already, since it must clip after the sum.

        Args:
          gradients: dense, one for each variable of `build`, in its order.
        """
        rate = self._get_current_learning_rate()
        tf.distribute.get_replica_context().merge_call(
            self._update_all, args=(list(gradients), rate)
        )

    def _update_all(
        self,
        strategy: tf.distribute.Strategy,
        gradients: list[tf.Tensor],
        learning_rate: tf.Tensor,
    ) -> None:
        rows = zip(
            self._trainable_variables,
            gradients,
            self.means,
            self.squares,
            strict=True,
        )
        for variable, gradient, mean, square in rows:
            decay = self._decay_of(variable)
            strategy.extended.update(
                variable.value,
                self._update,
                args=(gradient, mean.value, square.value, learning_rate, decay),
                group=False,
            )
        self.iterations.assign_add(1)

    def _update(
        self,
        variable: tf.Variable,
        gradient: tf.Tensor,
        mean: tf.Variable,
        square: tf.Variable,
        learning_rate: tf.Tensor,
        decay: float,
    ) -> None:
        m = self.beta_1 * mean + (1 - self.beta_1) * gradient
        v = self.beta_2 * square + (1 - self.beta_2) * tf.square(gradient)
        update = m / (tf.sqrt(v) + self.epsilon) + decay * variable
        mean.assign(m)
        square.assign(v)
        variable.assign_sub(learning_rate * update)

    def _decay_of(self, variable: keras.Variable) -> float:
        is_decayed = not any(name in variable.path for name in _NOT_DECAYED)
        return self.weight_decay_rate if is_decayed else 0.0

    def get_config(self) -> dict:
        config = super().get_config()
        names = ("weight_decay_rate", "beta_1", "beta_2", "epsilon")
        return {
            "learning_rate": config["learning_rate"],
            "name": self.name,
            **{name: getattr(self, name) for name in names},
        }
