"""Iterators over training batches, on the hosts of the devices."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.pretrain.pretrain_data import (
    BatchSchedule,
    BatchSource,
    Inputs,
    training_dataset,
)
from electra_tf.training.training_utils import Batches, InterleavedBatches

_DOCUMENTS_IN_A_ROW = 4  # in a packed row


def open_at(
    step: int,
    schedule: BatchSchedule,
    strategy: tf.distribute.Strategy,
    shuffle_megabytes: float,
) -> Batches:
    """Opens each replica's batches from a step to the end of its phase."""
    sources = schedule.sources(step)

    def iterator(source: BatchSource) -> Iterator:
        def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return training_dataset(
                source.records,
                batch_size=source.batch_size,
                seed=schedule.seed,
                first_row=source.first_row,
                # The groups of all sources are in memory at once.
                shuffle_megabytes=shuffle_megabytes / len(sources),
                context=context,
            )

        return iter(strategy.distribute_datasets_from_function(make))

    iterators = tuple(map(iterator, sources))
    if len(iterators) == 1:
        return iterators[0]
    return InterleavedBatches(iterators, iter(schedule.interleaving(step)))


def placeholder_vocabulary(config: CorpusConfig) -> Vocabulary:
    """Makes a vocabulary of the target size, each word counted once."""
    size = config.target_vocab_size
    words = (f"w{i}" for i in range(size - len(SPECIAL_TOKENS)))
    return Vocabulary((*SPECIAL_TOKENS, *words), counts=(1,) * size)


def random_batches(
    config: PretrainingConfig,
    strategy: tf.distribute.Strategy,
    packed_share: float = 0.0,
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
