"""Batches that replicas cannot share equally.

Each row knows its place in the global batch and 1 / the rows of that batch, so
that replicas learn as one device, with the same dropout.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

PLACE = "place_in_batch"  # int32 [B]
SHARE = "share_of_batch"  # float32 [B]


def add_places(data: tf.data.Dataset) -> tf.data.Dataset:
    """Adds `PLACE` and `SHARE` to the inputs of batches."""

    def add(inputs: Mapping[str, tf.Tensor], *rest: Any) -> tuple:  # noqa: ANN401
        num_rows = tf.shape(inputs["input_ids"])[0]
        share = tf.fill([num_rows], 1 / tf.cast(num_rows, tf.float32))
        return ({**inputs, PLACE: tf.range(num_rows), SHARE: share}, *rest)

    return data.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def mean_over_batch(losses: tf.Tensor) -> tf.Tensor:
    """Returns this replica's part of the mean of losses, [B], B maybe 0."""
    num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
    num_rows = tf.cast(tf.size(losses), losses.dtype)
    mean = tf.math.divide_no_nan(tf.reduce_sum(losses), num_rows)
    return mean / num_replicas


def weigh_gradient(
    loss: tf.Tensor,
    inputs: Mapping[str, tf.Tensor] | None,
    objective: Any = None,  # noqa: ANN401 (as Keras has it)
) -> tf.Tensor:
    """Weighs the gradient of a mean over a replica's rows by their share."""
    means = {"sum_over_batch_size", "mean"}
    objectives = keras.tree.flatten(objective)
    reductions = {getattr(x, "reduction", "mean") for x in objectives}
    if SHARE not in (inputs or ()) or not reductions <= means:
        return loss
    num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
    weight = tf.reduce_sum(inputs[SHARE]) * num_replicas  # 0 without rows
    return loss + (weight - 1) * (loss - tf.stop_gradient(loss))


def first_rows(batches: Iterator, strategy: tf.distribute.Strategy) -> Any:  # noqa: ANN401
    """Returns the first replica's rows of the first batch."""
    _, _, distributed = next(iter(batches))
    return keras.tree.map_structure(
        lambda x: strategy.experimental_local_results(x)[0], next(distributed)
    )
