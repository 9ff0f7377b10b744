"""A linear regression whose losses and gradients NumPy can compute."""

import types

import numpy as np
import tensorflow as tf

from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.model.schedules import WarmupPolynomialDecay
from electra_tf.training import updates

RATE, ROWS = 0.1, 8
START = np.array([0.5, -1.0, 2.0], "f")


class Regression(updates.UpdatedModel):
    """Three weights, and two that no loss reads; subclasses define losses."""

    def __init__(
        self,
        num_parts,
        *,
        decay=0.0,
        clip_norm=1.0,
        name="theta",
        original_clip_norm=False,
    ):
        super().__init__()
        self.config = types.SimpleNamespace(
            optimizer=types.SimpleNamespace(
                clip_norm=clip_norm, original_clip_norm=original_clip_norm
            ),
            runtime=types.SimpleNamespace(
                gradient_accumulation_steps=num_parts
            ),
        )
        self.theta = self.add_weight(shape=(3,), name=name)
        self.theta.assign(START)
        self.unread = self.add_weight(
            shape=(2,), initializer="ones", name="bias"
        )
        self.built = True
        rate = WarmupPolynomialDecay(RATE, 10, 0, 0.0)  # constant
        self.optimizer = AdamWeightDecayOptimizer(rate, weight_decay_rate=decay)
        self.optimizer.build(self.trainable_variables)

    def momentum(self):
        """Returns Adam's mean of the gradients of theta, float32 [3]."""
        return self.optimizer.means[0].numpy()


def distribute(batch, strategy):
    """Splits a batch of `ROWS` rows among the replicas of a strategy."""
    count = strategy.num_replicas_in_sync
    if count == 1:
        return tf.nest.map_structure(tf.constant, batch)

    def replica_rows(context):
        number = context.replica_id_in_sync_group
        return tf.nest.map_structure(
            lambda x: tf.constant(np.split(x, count)[number]), batch
        )

    return strategy.experimental_distribute_values_from_function(replica_rows)
