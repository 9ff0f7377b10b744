"""Randomness as an argument: counter-based random numbers, one key a row.

Every random number of an update is a pure function of (seed, step, row of the
global batch, purpose, index within the row), on any replica and in any
micro-batch. The 32-bit finalizer "lowbias32" of a counter gives the same bits
eagerly, in a graph and under XLA, where TF's stateless operations are slow.

Source: C. Wellons, "Prospecting for Hash Functions" (lowbias32).
"""

import contextlib
import math
import random
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

_GOLDEN = 0x9E3779B9  # 2**32 / golden ratio: spreads consecutive counters


@contextlib.contextmanager
def seed_initializers(seed: int) -> Iterator[None]:
    """Seeds the Keras initializers that are made in the block."""
    state = random.getstate()
    random.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(state)


def _mix(x: tf.Tensor) -> tf.Tensor:
    """Mixes the bits of `x`, uint32, any shape: a bijection on 32 bits."""
    shift = tf.bitwise.right_shift
    xor = tf.bitwise.bitwise_xor
    x = xor(x, shift(x, _word(16))) * _word(0x7FEB352D)
    x = xor(x, shift(x, _word(15))) * _word(0x846CA68B)
    return xor(x, shift(x, _word(16)))


def _word(value: int) -> tf.Tensor:
    return tf.constant(value & 0xFFFFFFFF, tf.uint32)


def _words(values: tf.Tensor) -> tf.Tensor:
    """Maps integers to well-spread uint32 words."""
    return _mix(tf.cast(values, tf.uint32) * _word(_GOLDEN) + _word(1))


def row_keys(seed: int, step: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Makes one key for each row of a batch: rows [B] -> [B]."""
    # Mixed once more, or swapping seed and step would give the same key.
    seed_key = _mix(_words(tf.constant(seed % 2**31, tf.int32)))
    key = _mix(seed_key ^ _words(step))
    return _mix(key ^ _words(rows))


def batch_keys(seed: int, step: tf.Tensor, num_rows: tf.Tensor) -> tf.Tensor:
    """Makes the keys of this replica's rows of the global batch, [B]."""
    replica = tf.distribute.get_replica_context()
    first = replica.replica_id_in_sync_group * num_rows if replica else 0
    return row_keys(seed, step, tf.range(num_rows) + first)


def fold_in(keys: tf.Tensor | None, purpose: int) -> tf.Tensor | None:
    """Derives independent keys for a purpose or a layer: keys [B] -> [B]."""
    if keys is None:
        return None
    return _mix(keys ^ _words(tf.constant(purpose, tf.int32)))


def random_bits(keys: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Draws 32 random bits per element: keys [B] -> [B, *shape]."""
    counters = _words(tf.range(math.prod(shape)))  # [n]
    bits = _mix(keys[:, tf.newaxis] ^ counters[tf.newaxis, :])  # [B, n]
    return tf.reshape(bits, [-1, *shape])


def uniform(keys: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Draws uniform numbers in [0, 1): keys [B] -> [B, *shape]."""
    bits = tf.bitwise.right_shift(random_bits(keys, shape), _word(8))
    return tf.cast(bits, tf.float32) * (1 / 2**24)


def permutation(size: int, seed: int, *key: int) -> np.ndarray:
    """Permutes range(size) as a function of the seed and the key."""
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    bits = np.random.PCG64(sequence).random_raw(size)
    return np.argsort(bits, kind="stable")
