"""Handling of updates whose loss or gradient is infinite or NaN.

The first of them ends a run, unless `skip_nonfinite_updates` allows skipping
that many in a row. A skipped update changes no weight and no slot of Adam, but
counts as a step, which determines learning rate, data and random numbers: the
run continues as an undisturbed run without that batch would. The decision is
made in the graph from sums over all replicas, so that all replicas agree. If
nothing may be skipped, none of it is in the graph.

Overflowing gradients in float16 are handled elsewhere: see `loss_scaling`.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf.model.losses import LossTerm
from electra_tf.training import loss_scaling
from electra_tf.util import console
from electra_tf.util.errors import NonFiniteLossError, listed

SKIPPED = "skipped_updates"
"""Name of the metric that counts skipped updates."""


def are_finite(metrics: Mapping[str, LossTerm], norm: tf.Tensor) -> tf.Tensor:
    """Returns whether the losses, metrics and gradient of an update are
    finite."""
    values = tf.stack([norm, *tf.nest.flatten(metrics)])
    return tf.reduce_all(tf.math.is_finite(values))


class FiniteUpdates:
    """Raises an error after too many consecutive updates that are not
    finite."""

    def __init__(
        self, max_skipped: int, loss_weights: Mapping[str, float]
    ) -> None:
        self.max_skipped = max_skipped
        self.loss_weights = loss_weights
        self._num_in_a_row = 0

    def check(
        self, sums: Mapping[str, np.ndarray], start: int
    ) -> dict[str, np.ndarray]:
        """Checks consecutive updates, and removes and counts skipped ones."""
        loss_scaling.check(sums, start)
        values = np.concatenate([*sums.values()], 1)
        is_finite = np.isfinite(values).all(1)
        for i, is_sound in enumerate(is_finite):
            self._num_in_a_row = 0 if is_sound else self._num_in_a_row + 1
            if self._num_in_a_row > self.max_skipped:
                raise self._error(_at(sums, i), start + i + 1)
        if not self.max_skipped:
            return dict(sums)
        if not is_finite.all():
            self._warn(sums, np.flatnonzero(~is_finite), start)
        counts = np.stack([~is_finite, np.ones_like(is_finite)], 1)
        kept = {name: values[is_finite] for name, values in sums.items()}
        return kept | {SKIPPED: counts.astype(np.float32)}

    def _warn(
        self, sums: Mapping[str, np.ndarray], skipped: np.ndarray, start: int
    ) -> None:
        steps = listed([str(start + i + 1) for i in skipped])
        console.warn(
            f"Skipped the update of step {steps}: "
            f"{self._values(_at(sums, skipped[-1]))}. Weights are as before. "
            f"--skip_nonfinite_updates allows {self.max_skipped} in a row."
        )

    def _error(
        self, values: Mapping[str, float], step: int
    ) -> NonFiniteLossError:
        way_out = (
            "Give the same command with --skip_nonfinite_updates=3 to skip "
            "such batches, up to three in a row; or start "
        )
        preceding = ""
        if self.max_skipped:
            way_out = "Start "
            preceding = (
                f" The {self.max_skipped} updates before it were not finite "
                "either, and were skipped."
            )
        return NonFiniteLossError(
            "The loss and its gradient must be finite. Received, at step "
            f"{step}: {self._values(values)}.{preceding} Nothing was saved "
            f"since; earlier checkpoints hold finite weights. {way_out}from "
            "one of them (--init_checkpoint), or from scratch, with a lower "
            "--learning_rate under another --model_name, or look at the data."
        )

    def _values(self, values: Mapping[str, float]) -> str:
        """Formats the total loss and each metric that is not finite."""
        loss = sum(
            weight * values.get(name, 0.0)
            for name, weight in self.loss_weights.items()
        )
        bad = [k for k, v in values.items() if not np.isfinite(v)]
        return listed(
            [f"loss {loss:.4g}", *(f"{k} {values[k]:.4g}" for k in bad)]
        )


def _at(sums: Mapping[str, np.ndarray], number: int) -> dict[str, float]:
    """Returns name -> value of each metric at one update."""
    pairs = {name: map(float, values[number]) for name, values in sums.items()}
    return {
        name: total / weight if weight else total
        for name, (total, weight) in sorted(pairs.items())
    }
