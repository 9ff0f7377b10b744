import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
)
from electra_tf.model.modeling import EncoderOutput


def _states(x):
    return EncoderOutput(x[:, None], x, [], x[:, None])


def test_hugging_faces_head_is_dense_gelu_dense():
    head = ClassificationHead("t", 3, "hugging_face").build_for(4)
    assert sorted(v.path for v in head.variables) == [
        f"task_specific/t/classifier/{layer}/{leaf}"
        for layer in ("dense", "out_proj")
        for leaf in ("bias", "kernel")
    ]
    random = np.random.default_rng(0)
    values = {}
    for variable in head.variables:
        value = random.normal(size=variable.shape).astype(np.float32)
        variable.assign(value)
        values[variable.path.split("classifier/")[1]] = value
    x = random.normal(size=(5, 4)).astype(np.float32)
    hidden = x @ values["dense/kernel"] + values["dense/bias"]
    phi = np.vectorize(math.erf)(hidden / math.sqrt(2)) / 2 + 0.5
    expected = hidden * phi @ values["out_proj/kernel"]
    expected += values["out_proj/bias"]
    logits = head(_states(tf.constant(x)), {})["logits"]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["electra", "hugging_face"])
def test_dropout_is_a_tenth_and_only_with_keys(kind):
    head = ClassificationHead("t", 1, kind)
    head.build((None, 400))
    head.dense.kernel.assign(tf.ones_like(head.dense.kernel))
    x = tf.ones([64, 400])
    keys = tf.cast(tf.range(64), tf.uint32)
    dropped = head(_states(x), {}, keys)["logits"].numpy()
    whole = head(_states(x), {})["logits"].numpy()
    assert np.ptp(whole) == 0 and np.ptp(dropped) > 0
    if kind == "electra":
        # Kept values are scaled so that the mean stays.
        assert dropped.mean() == pytest.approx(400, rel=0.01)
        kept = dropped * 0.9 / 400
        assert kept.std() == pytest.approx(math.sqrt(0.09 / 400), rel=0.3)
