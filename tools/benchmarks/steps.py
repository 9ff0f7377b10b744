"""Training on random tokens, for the benchmarks in this directory."""

import statistics
import time

import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain import pretraining_run
from electra_tf.pretrain.training_batches import (
    placeholder_vocabulary,
    random_batches,
)
from electra_tf.training import training_utils
from electra_tf.util import distribution, threads


class Steps:
    """Makes and times whole updates, dropout and optimizer included."""

    def __init__(
        self, config: PretrainingConfig, *, packed_share: float = 0.0
    ) -> None:
        # As run_pretraining does.
        threads.limit_intra_op_threads(config.num_activations)
        vocabulary = placeholder_vocabulary(config.corpus)
        strategy = distribution.make_strategy(config.runtime.strategy)
        self.model = pretraining_run.make_model(config, vocabulary, strategy)
        self._strategy = strategy
        self._batches = random_batches(config, strategy, packed_share)
        self._block = training_utils.make_block(self.model, strategy)

    def losses(self, num_steps: int) -> np.ndarray:
        """Makes updates, and returns the loss at each, float64 [num_steps]."""
        sums = self._block(self._batches, num_steps)
        return training_utils.losses(sums, self.model.loss_weights)

    def update(self, num_steps: int) -> float:
        """Makes updates, and returns the loss at the last."""
        return float(self.losses(num_steps)[-1])

    def seconds(self, num_steps: int) -> float:
        """Makes updates, and returns the seconds of one update."""
        start = time.perf_counter()
        self._block(self._batches, num_steps)
        return (time.perf_counter() - start) / num_steps

    def weights_update_seconds(self, num_steps: int) -> float:
        """Times clipping and optimizer alone, on random gradients."""
        model = self.model
        variables = model.trainable_variables
        gradients = [tf.random.normal(v.shape) for v in variables]

        @tf.function(autograph=False)
        def apply() -> None:
            arguments = (variables, gradients, {})
            self._strategy.run(model.clip_and_apply, arguments)

        apply()  # traces
        times = []
        for _ in range(num_steps):
            self.update(1)
            start = time.perf_counter()
            apply()
            times.append(time.perf_counter() - start)
        return statistics.median(times)
