"""Training on random tokens, for the benchmarks in this directory."""

import statistics
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.training import training_utils
from electra_tf.util import distribution, threads

_DOCUMENTS_IN_A_ROW = 4  # in a packed row


class Steps:
    """Makes and times whole updates, dropout and optimizer included."""

    def __init__(
        self, config: PretrainingConfig, *, packed_share: float = 0.0
    ) -> None:
        # As run_pretraining does.
        threads.limit_intra_op_threads(config.num_activations)
        vocabulary = _vocabulary(config.corpus)
        strategy = distribution.make_strategy(config.runtime.strategy)
        self.model = pretraining_run.make_model(config, vocabulary, strategy)
        self._strategy = strategy
        self._batches = _random_batches(config, strategy, packed_share)
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


def _vocabulary(config: CorpusConfig) -> Vocabulary:
    """Makes a vocabulary of the target size, each word counted once."""
    size = config.target_vocab_size
    words = (f"w{i}" for i in range(size - len(SPECIAL_TOKENS)))
    return Vocabulary((*SPECIAL_TOKENS, *words), counts=(1,) * size)


def _random_batches(
    config: PretrainingConfig,
    strategy: tf.distribute.Strategy,
    packed_share: float,
) -> Iterator:
    """Makes an iterator that repeats one batch of random words."""
    shape = (config.training.train_batch_size, config.corpus.max_seq_length)
    first, end = len(SPECIAL_TOKENS), config.corpus.target_vocab_size
    ids = np.random.default_rng(0).integers(first, end, shape, np.int32)
    documents = np.ones_like(ids)  # the number of a token's document
    documents[: round(packed_share * shape[0])] += (
        np.arange(shape[1], dtype=np.int32) * _DOCUMENTS_IN_A_ROW // shape[1]
    )
    rows = Inputs(ids, documents, np.zeros_like(ids))

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        number = context.get_per_replica_batch_size(shape[0])
        dataset = tf.data.Dataset.from_tensor_slices(rows).repeat()
        return dataset.batch(number, drop_remainder=True)

    return iter(strategy.distribute_datasets_from_function(make))
