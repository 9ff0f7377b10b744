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
    """Three weights and two that no loss reads; a subclass has the losses."""

    def __init__(self, precision, num_parts, *, decay=0.0, clip_norm=1.0):
        super().__init__(precision)
        self.config = types.SimpleNamespace(
            optimizer=types.SimpleNamespace(
                clip_norm=clip_norm, original_clip_norm=False
            ),
            runtime=types.SimpleNamespace(
                gradient_accumulation_steps=num_parts,
                skip_nonfinite_updates=0,
            ),
        )
        self.theta = self.add_weight(shape=(3,), name="theta")
        self.theta.assign(START)
        self.unread = self.add_weight(
            shape=(2,), initializer="ones", name="bias"
        )
        self.built = True
        rate = WarmupPolynomialDecay(RATE, 10, 0, 0.0)  # constant
        self.optimizer = AdamWeightDecayOptimizer(rate, weight_decay_rate=decay)
        self.optimizer.build(self.trainable_variables)


def distribute(batch, strategy):
    """Returns a batch of `ROWS` rows, of which each replica has its share."""
    count = strategy.num_replicas_in_sync
    if count == 1:
        return tf.nest.map_structure(tf.constant, batch)

    def mine(context):
        number = context.replica_id_in_sync_group
        return tf.nest.map_structure(
            lambda x: tf.constant(np.split(x, count)[number]), batch
        )

    return strategy.experimental_distribute_values_from_function(mine)
