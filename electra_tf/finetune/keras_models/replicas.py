"""Batches that replicas cannot share equally.

Each row knows its place in the global batch, so that replicas learn as one
device, with the same dropout.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

PLACE = "place_in_batch"
"""Column of a row's index in the global batch, int32 [B]."""
SHARE = "share_of_batch"
"""Column of 1 / the number of rows of the global batch, float32 [B]."""

_MEANS = ("sum_over_batch_size", "mean")


def add_places(
    data: tf.data.Dataset, strategy: tf.distribute.Strategy
) -> tf.data.Dataset:
    """Adds `PLACE` and `SHARE` to the inputs if replicas share the batches."""
    if strategy.num_replicas_in_sync == 1:
        return data

    def add(inputs: Mapping[str, tf.Tensor], *rest: Any) -> tuple:  # noqa: ANN401
        num_rows = tf.shape(inputs["input_ids"])[0]
        share = 1 / tf.cast(num_rows, tf.float32)
        added = {
            PLACE: tf.range(num_rows),
            SHARE: tf.fill([num_rows], share),
        }
        return ({**inputs, **added}, *rest)

    return data.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def weigh_gradient(
    loss: tf.Tensor,
    inputs: Mapping[str, tf.Tensor] | None,
    objective: Any = None,  # noqa: ANN401 (as Keras has it)
) -> tf.Tensor:
    """Weighs the gradient of a replica's loss by its share of the rows."""
    reductions = {
        getattr(x, "reduction", "mean") for x in keras.tree.flatten(objective)
    }
    if SHARE not in (inputs or ()) or not reductions <= {*_MEANS}:
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
