import numpy as np
import scipy.stats
import tensorflow as tf

from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
)
from electra_tf.model.modeling import EncoderOutput


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
    hidden *= scipy.stats.norm.cdf(hidden)  # gelu
    expected = hidden @ values["out_proj/kernel"] + values["out_proj/bias"]
    states = EncoderOutput(None, tf.constant(x), [], None)
    logits = head(states, {})["logits"]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
