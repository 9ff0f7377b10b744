import numpy as np
import pytest
import tensorflow as tf

from electra_tf.serving import networks

TOKENS = [f"t{i}" for i in range(12)]


@pytest.mark.parametrize(("num_tokens", "num_top"), [(12, 10), (3, 3)])
def test_the_likeliest_tokens_come_first_and_only_where_asked_for(
    num_tokens, num_top
):
    logits = tf.range(num_tokens, dtype=tf.float32)[tf.newaxis]
    is_shown = tf.constant([[False, True], [False, False]])
    found = networks.top_tokens(logits, is_shown, TOKENS[:num_tokens])
    tokens, p = (found[k].numpy() for k in ("top_tokens", "top_probabilities"))
    assert tokens.shape == p.shape == (2, 2, num_top)
    best = [f"t{num_tokens - 1 - i}".encode() for i in range(num_top)]
    assert tokens[0, 1].tolist() == best
    e = np.exp(np.arange(num_tokens))
    np.testing.assert_allclose(
        p[0, 1], (e / e.sum())[::-1][:num_top], rtol=1e-5
    )
    assert not p[~is_shown.numpy()].any()
    assert set(tokens[~is_shown.numpy()].flat) == {b""}
