import math

import golden_arrays
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.config.model import BertConfig
from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
    RegressionHead,
)
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.model.modeling import BertModel, EncoderOutput

TABLE = "electra/embeddings/word_embeddings"
HEADS = {
    "cola": (ClassificationHead("cola", 2), "label_ids", "logits"),
    "sts": (RegressionHead("sts"), "targets", "predictions"),
}


def _golden(task):
    path = golden_arrays.ROOT / f"finetune/head_{task}.npz"
    arrays = dict(np.load(path))
    for kind in ("var", "grad"):
        rows = arrays.pop(f"{kind}/{TABLE}__rows_used_ids")
        table = np.zeros((30522, rows.shape[1]), np.float32)
        table[arrays["used_ids"]] = rows
        arrays[f"{kind}/{TABLE}"] = table
    return arrays


@pytest.mark.parametrize("task", HEADS)
def test_outputs_losses_and_gradients_are_those_of_the_original(task):
    golden = _golden(task)
    head, target, output = HEADS[task]
    encoder = BertModel(
        BertConfig(
            vocab_size=30522,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            embedding_size=16,
        )
    )
    encoder.build((None, None))
    with keras.name_scope("task_specific"):
        head.build((None, 32))
    model = FinetuningModel(
        tiny.config(), encoder, [head], seed=0, num_train_steps=1
    )
    for variable in model.trainable_variables:
        variable.assign(golden[f"var/{variable.path}"])
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: tf.constant(golden[f"in/{name}"]) for name in names}
    batch[target] = tf.constant(golden[f"in/{task}_{target}"])
    with tf.GradientTape() as tape:
        outputs = model.outputs(task, batch)
        losses = head.losses(outputs, batch)
        total = tf.reduce_sum(losses)
    np.testing.assert_allclose(losses, golden["train/loss"], rtol=2e-5)
    np.testing.assert_allclose(
        outputs[output], golden[f"train/{output}"], rtol=2e-5, atol=1e-6
    )
    variables = [variable.value for variable in model.trainable_variables]
    gradients = tape.gradient(total, variables)
    for variable, gradient in zip(
        model.trainable_variables, gradients, strict=True
    ):
        expected = golden[f"grad/{variable.path}"]
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient), expected, atol=3e-5 * scale + 1e-7
        )


def _states(x):
    return EncoderOutput(x[:, None], x, [], x[:, None])


def test_hugging_faces_head_is_dense_gelu_dense():
    head = ClassificationHead("t", 3, "hugging_face")
    with keras.name_scope("task_specific"):
        head.build((None, 4))
    assert sorted(v.path for v in head.variables) == [
        f"task_specific/t/classifier/{layer}/{leaf}"
        for layer in ("dense", "out_proj")
        for leaf in ("bias", "kernel")
    ]
    random = np.random.default_rng(0)
    values = {}
    for variable in head.variables:
        values[variable.path.split("classifier/")[1]] = random.normal(
            size=variable.shape
        ).astype(np.float32)
        variable.assign(values[variable.path.split("classifier/")[1]])
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


def test_a_head_can_be_made_from_its_configuration():
    for head in (ClassificationHead("a", 3, "hugging_face"), HEADS["sts"][0]):
        config = head.get_config()
        assert type(head).from_config(config).get_config() == config
