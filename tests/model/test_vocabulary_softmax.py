"""The blocked softmax has the values and gradients of the whole softmax."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import vocabulary_softmax

B, L, E, V = 3, 7, 4, 11
RNG = np.random.default_rng(0)
X, TABLE, BIAS, UPSTREAM = (
    RNG.normal(size=shape).astype(np.float32)
    for shape in ((B, L, E), (V, E), (V,), (B, L))
)
WANTED = RNG.random((B, L)) < 0.6
LOGITS = X.astype(np.float64) @ TABLE.T + BIAS
MAX_LOGITS = (1, 2 * V, 5 * V, 1000)  # one row at a time, ..., all at once


def _run(max_logits, wanted=WANTED, x=X):
    inputs = [tf.constant(array) for array in (x, TABLE, BIAS)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        log_z, best = vocabulary_softmax.log_partition(
            *inputs, is_wanted=tf.constant(wanted), max_logits=max_logits
        )
        total = tf.reduce_sum(log_z * UPSTREAM[: len(x)])
    return log_z, best, *tape.gradient(total, inputs)


@pytest.mark.parametrize("max_logits", MAX_LOGITS)
def test_values_and_gradients_equal_the_formula(max_logits):
    log_z, best, dx, dtable, dbias = map(np.asarray, _run(max_logits))
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    dlogits = probs * (UPSTREAM * WANTED)[..., None]
    expected = np.where(WANTED, np.log(np.exp(LOGITS).sum(-1)), 0)
    np.testing.assert_allclose(log_z, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(best[WANTED], LOGITS.argmax(-1)[WANTED])
    np.testing.assert_allclose(dx, dlogits @ TABLE, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        dtable, np.einsum("blv,ble->ve", dlogits, X), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(dbias, dlogits.sum((0, 1)), rtol=1e-4, atol=1e-5)


def test_unwanted_states_may_be_nan():
    junk = np.where(WANTED[..., None], X, np.float32(np.nan))
    for found, expected in zip(_run(V, x=junk), _run(V), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_no_block_has_more_logits_than_allowed(monkeypatch):
    sizes, compute = [], vocabulary_softmax._logits

    def record(*args):
        logits = compute(*args)
        sizes.append(logits.shape.num_elements())
        return logits

    monkeypatch.setattr(vocabulary_softmax, "_logits", record)
    _run(2 * V)
    assert max(sizes) == 2 * V
    num_blocks = -(-WANTED.sum() // 2)
    assert len(sizes) == 2 * num_blocks  # of values, and of gradients
