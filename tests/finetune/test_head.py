"""Every kind of head: against arrays of the original, and its config."""

import golden_arrays
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
    RegressionHead,
)
from electra_tf.finetune.tagging.tagging_head import TaggingHead
from electra_tf.model.modeling import EncoderOutput

TABLE = "electra/embeddings/word_embeddings"
HEADS = {
    "cola": lambda: ClassificationHead("cola", 2),
    "sts": lambda: RegressionHead("sts"),
    "chunk": lambda: TaggingHead("chunk", 11),
}


def _golden(task):
    path = golden_arrays.ROOT / f"finetune/head_{task}.npz"
    if not path.exists():
        pytest.skip("needs the golden arrays")
    arrays = dict(np.load(path))
    for kind in ("var", "grad"):
        rows = arrays.pop(f"{kind}/{TABLE}__rows_used_ids")
        table = np.zeros((30522, rows.shape[1]), np.float32)
        table[arrays["used_ids"]] = rows
        arrays[f"{kind}/{TABLE}"] = table
    return arrays


@pytest.mark.parametrize("task", HEADS)
def test_outputs_losses_and_gradients_are_those_of_the_original(task):
    golden, head = _golden(task), HEADS[task]()
    model = tiny.golden_model(head)
    variables = model.trainable_variables
    for variable in variables:
        variable.assign(golden[f"var/{variable.path}"])
    batch = {
        name.removeprefix("in/").removeprefix(f"{task}_"): tf.constant(value)
        for name, value in golden.items()
        if name.startswith("in/")
    }
    batch["loss_mask"] = batch.get("labels_mask")
    with tf.GradientTape() as tape:
        outputs = model.outputs(task, batch)
        losses = head.losses(outputs, batch)
        total = tf.reduce_sum(losses)
    np.testing.assert_allclose(losses, golden["train/loss"], rtol=2e-5)
    names = {name for name in outputs if f"train/{name}" in golden}
    assert names & {"logits", "predictions"}
    for name in names:
        np.testing.assert_allclose(
            outputs[name], golden[f"train/{name}"], rtol=2e-5, atol=5e-6
        )
    gradients = tape.gradient(total, [v.value for v in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        expected = golden[f"grad/{variable.path}"]
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient), expected, atol=3e-5 * scale + 1e-7
        )


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
