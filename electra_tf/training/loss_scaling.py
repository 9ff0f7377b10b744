"""Dynamic loss scaling, for a backward pass in float16.

float16 cannot represent numbers below 6e-8, and many gradients are smaller. The
loss is scaled before the backward pass and the gradients are scaled back in
float32; the scale s is adapted after each update:

    gradients finite      the update is applied; s = 2 s after 2,000 in a row
    an infinity or NaN    the update is skipped; s = s / 2

A skipped update changes no weight and no slot, but counts as a step, which
determines data and random numbers. s is a power of 2: scaling back is exact.

Source: Micikevicius et al., 2018, "Mixed Precision Training"; start and period
are those of `keras.optimizers.LossScaleOptimizer`.
"""

from collections.abc import Mapping, MutableMapping

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint.architecture import LOSS_SCALE
from electra_tf.model.losses import LossTerm
from electra_tf.util.errors import NonFiniteLossError

INITIAL_SCALE = 2.0**15
MIN_SCALE = 2.0**-24
"""Smallest number of float16. From the initial scale it takes 40 skipped
updates in a row to get below it; then the cause is not the range of float16."""
GROWTH_PERIOD = 2000
"""Consecutive updates without a skipped one after which the scale doubles."""

_SCALE = "loss_scale"


class LossScale:
    """The loss scale of a training; must be made in its strategy's scope."""

    def __init__(self) -> None:
        self.scale, self.num_good_updates = (
            tf.Variable(
                initial,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
            for initial in (INITIAL_SCALE, 0)
        )

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """The variables of a checkpoint, by name."""
        return {
            f"{LOSS_SCALE}/scale": self.scale,
            f"{LOSS_SCALE}/num_good_updates": self.num_good_updates,
        }

    def save(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Adds the scale to a Keras file."""
        for name, variable in self.variables.items():
            store[name.replace("/", "_")] = variable.numpy()

    def load(self, store: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Restores the scale from a Keras file, if it was saved there."""
        rest = {name: store[name] for name in store.keys()}
        for name, variable in self.variables.items():
            variable.assign(rest.pop(name.replace("/", "_"), variable))
        return rest

    def scaled(self, weights: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Scales losses by s: divides their divisors by it."""
        return {name: weight / self.scale for name, weight in weights.items()}

    def unscaled(
        self, gradients: list[tf.Tensor], lookups: Mapping[str, tf.Tensor]
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Divides gradients by s, and sums of squares by its square."""
        square = tf.square(self.scale)
        return (
            [gradient / self.scale for gradient in gradients],
            {name: total / square for name, total in lookups.items()},
        )

    def adapt(self, norm: tf.Tensor) -> tuple[tf.Tensor, dict[str, LossTerm]]:
        """Decides whether an update is applied, and sets the next scale."""
        is_finite = tf.math.is_finite(norm)
        count, one = tf.cast(is_finite, tf.float32), tf.constant(1.0)
        metrics = {
            "gradient_norm": LossTerm(tf.where(is_finite, norm, 0.0), count),
            "skipped_share": LossTerm(one - count, one),
            _SCALE: LossTerm(tf.identity(self.scale), one),
        }
        tf.distribute.get_replica_context().merge_call(
            self._update, args=(is_finite,)
        )
        return is_finite, metrics

    def _update(
        self, strategy: tf.distribute.Strategy, is_finite: tf.Tensor
    ) -> None:
        strategy.extended.update(
            self.scale,
            _assign_next,
            args=(self.num_good_updates, is_finite),
            group=False,
        )


def _assign_next(
    scale: tf.Variable, num_good_updates: tf.Variable, is_finite: tf.Tensor
) -> None:
    """Updates scale and count after an update, on one device."""
    count = tf.where(is_finite, num_good_updates + 1, 0)
    is_due = count >= GROWTH_PERIOD
    growth = tf.where(is_due, 2.0, 1.0)
    scale.assign(scale * tf.where(is_finite, growth, 0.5))
    num_good_updates.assign(tf.where(is_due, 0, count))


def check(sums: Mapping[str, np.ndarray], start: int) -> None:
    """Checks that the loss scale has not fallen below `MIN_SCALE`."""
    if _SCALE not in sums:
        return
    bad = np.flatnonzero(sums[_SCALE][:, 0] < MIN_SCALE)
    if bad.size:
        raise NonFiniteLossError(
            "Gradients must be finite under some loss scale. Received: "
            f"infinite or NaN gradients down to a scale of {MIN_SCALE:.0e}, at "
            f"step {start + bad[0] + 1}. The weights did not change: start "
            "from the newest checkpoint (--init_checkpoint) with a lower "
            "--learning_rate or another --precision under another --model_name."
        )
