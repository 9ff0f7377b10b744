"""One update from one global batch, for pre-training and fine-tuning.

A model subclasses `UpdatedModel` and implements `compute_losses`. Everything
else is here: micro-batches, the sum over replicas, the division, clipping, the
optimizer step.
"""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from electra_tf.model import optimization
from electra_tf.model.losses import LossTerm

Metrics = dict[str, LossTerm]
"""Losses and metrics by name, each a sum and a weight."""
Inputs = Any
"""Tensors of a batch, [B, ...], in any nested structure."""
RandomKeys = Any
"""uint32 [B], one random key a row; or tensors with more information,
[B, ...]."""


CLIP_NORM = 1.0
"""Maximum global norm of the gradient, the original's."""


class UpdateSums(NamedTuple):
    """Sums over micro-batches and replicas."""

    metrics: Metrics
    gradients: list[tf.Tensor]
    lookups: dict[str, tf.Tensor]


class UpdatedModel(keras.Model, abc.ABC):
    """A model with its own losses and its own update."""

    config: Any
    loss_weights: dict[str, float]

    def __init__(self) -> None:
        # Not Keras' global policy: with mixed_float16 Keras would wrap the
        # optimizer and scale the loss.
        super().__init__(dtype="float32")
        self.jit_compile_step = False

    @abc.abstractmethod
    def compute_losses(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> Metrics:
        """Computes every loss and metric of a batch."""

    def loss_factors(self, keys: RandomKeys) -> dict[str, float | tf.Tensor]:
        """Returns the factor of each loss in the gradient of an update."""
        return dict(self.loss_weights)

    def variables_of(self, inputs: Inputs) -> list[keras.Variable]:
        """Returns the variables that a batch updates."""
        return self.trainable_variables

    def update_with_keys(self, inputs: Inputs, *, keys: RandomKeys) -> Metrics:
        """Makes one update with given random keys or random numbers."""
        replica = tf.distribute.get_replica_context()
        weights = replica.all_reduce(
            "SUM", self.loss_denominators(inputs, keys=keys)
        )
        sums = self._accumulate(inputs, keys, weights)
        metrics, gradients, lookups = replica.all_reduce("SUM", sums)
        variables = self.variables_of(inputs)
        norm = optimization.global_norm(variables, gradients, lookups)
        pairs = zip(variables, gradients, strict=True)
        by_path = {variable.path: gradient for variable, gradient in pairs}
        self.optimizer.apply_reduced(
            [by_path.get(v.path) for v in self.trainable_variables],
            scale=optimization.clip_scale(norm, CLIP_NORM),
        )
        return metrics | {"gradient_norm": LossTerm(norm, tf.constant(1.0))}

    def loss_denominators(
        self, inputs: Inputs, *, keys: RandomKeys
    ) -> dict[str, tf.Tensor]:
        """Computes the weight that divides the gradient of each loss."""
        metrics = self.compute_losses(inputs, keys=keys, training=True)
        return {name: metrics[name].weight for name in self.loss_weights}

    def _accumulate(
        self, inputs: Inputs, keys: RandomKeys, weights: dict[str, tf.Tensor]
    ) -> UpdateSums:
        """Sums metrics and gradients over micro-batches."""
        count = self.config.runtime.gradient_accumulation_steps
        forward_backward = self.forward_backward
        if self.jit_compile_step:
            # Not around the whole update: under several replicas XLA cannot
            # reach the variables and sums of the other devices.
            forward_backward = tf.function(
                forward_backward, jit_compile=True, autograph=False
            )
        if count == 1:
            return forward_backward(inputs, keys, weights)

        def split(x: tf.Tensor) -> tf.Tensor:
            return tf.reshape(x, [count, -1, *x.shape[1:]])

        parts = tf.nest.map_structure(split, (inputs, keys))

        def run(i: tf.Tensor) -> UpdateSums:
            rows, row_keys = tf.nest.map_structure(lambda x: x[i], parts)
            return forward_backward(rows, row_keys, weights)

        def add(i: tf.Tensor, sums: UpdateSums) -> tuple[tf.Tensor, UpdateSums]:
            return i + 1, tf.nest.map_structure(tf.add, sums, run(i))

        return tf.while_loop(
            lambda i, sums: i < count,
            add,
            (tf.constant(1), run(0)),
            parallel_iterations=1,  # or several would be in memory together
        )[1]

    def forward_backward(
        self, inputs: Inputs, keys: RandomKeys, weights: dict[str, tf.Tensor]
    ) -> UpdateSums:
        """Computes metrics and gradients of one micro-batch."""
        variables = self.variables_of(inputs)
        with tf.GradientTape() as tape:
            metrics = self.compute_losses(inputs, keys=keys, training=True)
            factors = self.loss_factors(keys)
            totals = {n: metrics[n].total * x for n, x in factors.items()}
            divide = tf.math.divide_no_nan
            loss = tf.add_n([divide(x, weights[n]) for n, x in totals.items()])
        gradients = tape.gradient(
            loss,
            [variable.value for variable in variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        lookups = {}
        if "clip_norm" in self.config.original_behaviour:
            lookups = optimization.lookup_squares(variables, gradients)
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return UpdateSums(metrics, dense, lookups)


def checkpoint_variables(model: UpdatedModel) -> dict[str, tf.Variable]:
    """Returns the variables of a checkpoint, under the original's names."""
    optimizer = model.optimizer
    variables = {"global_step": optimizer.iterations.value}
    for variable, mean, square in optimizer.slots():
        variables[variable.path] = variable.value
        variables[f"{variable.path}/adam_m"] = mean.value
        variables[f"{variable.path}/adam_v"] = square.value
    others = [v for v in model.weights if v.path not in variables]
    return variables | {v.path: v.value for v in others}
