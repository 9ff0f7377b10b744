"""Heads against arrays of the original, and formulas in NumPy."""

import functools

import golden_arrays
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.classification.classification_tasks import (
    ClassificationHead,
    RegressionHead,
)
from electra_tf.finetune.qa import qa_heads
from electra_tf.finetune.tagging.tagging_tasks import TaggingHead
from electra_tf.model.modeling import EncoderOutput

TABLE = "electra/embeddings/word_embeddings"
HEADS = {
    "cola": lambda: ClassificationHead("cola", 2),
    "sts": lambda: RegressionHead("sts", 1),
    "chunk": lambda: TaggingHead("chunk", 11),
}
_assert_close = functools.partial(np.testing.assert_allclose, rtol=2e-5)


def _trained(model, batch, keys=None):
    """Returns outputs and losses, and each variable with its gradient."""
    (head,) = model.heads.values()
    with tf.GradientTape() as tape:
        outputs = model.outputs(head.name, batch, keys)
        losses = head.losses(outputs, batch)
        total = tf.reduce_sum(losses)
    variables = model.trainable_variables
    gradients = tape.gradient(total, [v.value for v in variables])
    gradients = [tf.convert_to_tensor(x).numpy() for x in gradients]
    return outputs, losses, zip(variables, gradients, strict=True)


@pytest.mark.parametrize("task", HEADS)
def test_outputs_losses_and_gradients_are_those_of_the_original(task):
    path = golden_arrays.ROOT / f"finetune/head_{task}.npz"
    if not path.exists():
        pytest.skip("needs the golden arrays")
    golden = dict(np.load(path))
    for kind in ("var", "grad"):
        rows = golden.pop(f"{kind}/{TABLE}__rows_used_ids")
        table = np.zeros((30522, rows.shape[1]), np.float32)
        table[golden["used_ids"]] = rows
        golden[f"{kind}/{TABLE}"] = table
    model = tiny.golden_model(HEADS[task]())
    for variable in model.trainable_variables:
        variable.assign(golden[f"var/{variable.path}"])
    batch = {
        name.removeprefix("in/").removeprefix(f"{task}_"): tf.constant(value)
        for name, value in golden.items()
        if name.startswith("in/")
    }
    batch["loss_mask"] = batch.get("labels_mask")
    outputs, losses, gradients = _trained(model, batch)
    _assert_close(losses, golden["train/loss"])
    if task == "sts":
        outputs["predictions"] = outputs.pop("logits")[:, 0]
    names = {name for name in outputs if f"train/{name}" in golden}
    assert names & {"logits", "predictions"}
    for name in names:
        _assert_close(outputs[name], golden[f"train/{name}"], atol=5e-6)
    for variable, gradient in gradients:
        expected = golden[f"grad/{variable.path}"]
        atol = 3e-5 * np.abs(expected).max() + 1e-7
        np.testing.assert_allclose(gradient, expected, atol=atol)


GOLDEN = dict(np.load(golden_arrays.HERE / "golden/finetune/head_qa.npz"))
BEAM = 5
CONFIGS = {
    "squad": QAConfig(beam_size=BEAM),
    "squad_noansw": QAConfig(beam_size=BEAM, answerable_classifier=False),
}
KEYS = np.arange(6, dtype=np.uint32)


def _golden_model(case):
    """Makes a model with the original's values, in the order of the names."""
    head = qa_heads.QAHead("squad", "electra", CONFIGS[case])
    model = tiny.golden_model(head)
    random = np.random.RandomState(4242)
    for variable in sorted(model.trainable_variables, key=lambda v: v.path):
        value = random.randn(*variable.shape)
        if variable.path.endswith("gamma"):
            value = 1 + 0.2 * value
        else:
            value *= 0.2 if value.ndim == 1 else 0.1
        variable.assign(value.astype(np.float32))
    return model, head


@pytest.mark.parametrize("case", CONFIGS)
def test_question_answering_is_that_of_the_original(case):
    model, head = _golden_model(case)
    batch, golden = {}, {}
    for name, array in GOLDEN.items():
        golden[name.removeprefix(f"{case}/")] = array
        if name.startswith("in/"):
            name = name.removeprefix("in/").removeprefix("squad_")
            batch[name] = tf.constant(array.astype(np.int32))
    batch |= dict.fromkeys(qa_heads.SCORER_COLUMNS[1:], batch["input_mask"])
    outputs, losses, gradients = _trained(model, batch, tf.constant(KEYS))
    _assert_close(losses, golden["train/loss"])
    assert "start_top_index" not in outputs, "there is no beam in training"
    names = ["start_logits", "end_logits"]
    for name in names + ["answerable_logit"] * (case == "squad"):
        _assert_close(outputs[name], golden[f"train/{name}"], atol=5e-6)
    num_compared = 0
    for variable, gradient in gradients:
        norm = np.linalg.norm(gradient.astype(float))
        expected = golden[f"norm/{variable.path}"]
        assert norm == pytest.approx(expected, rel=1e-4, abs=1e-5)
        expected = golden.get(f"grad/{variable.path}")
        if expected is not None:
            atol = 3e-5 * np.abs(expected).max() + 1e-6
            np.testing.assert_allclose(gradient, expected, atol=atol)
            num_compared += 1
    assert num_compared >= 6
    outputs = model.outputs("squad", batch)
    for name in qa_heads.BEAM:
        is_place = name.endswith("index")
        compare = np.testing.assert_array_equal if is_place else _assert_close
        compare(outputs[name], golden[f"predict/{name}"])
    # Differs: the loss is that of training.
    _assert_close(head.losses(outputs, batch), golden["train/loss"])
    for name in qa_heads.SCORER_COLUMNS:
        np.testing.assert_array_equal(outputs[name], batch[name])


def _log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def _linear(x, values, name):
    return x @ values[f"{name}/kernel"] + values[f"{name}/bias"]


def _run(kind, **fields):
    """Runs a head on random states of rows with their context at the end.

    Returns outputs, losses, states, features, weights, and the penalties of
    tokens that are neither [CLS] nor context.
    """
    head = qa_heads.QAHead("t", kind, QAConfig(**fields)).build_for(4)
    random = np.random.default_rng(1)
    values = {}
    for variable in head.variables:
        value = random.normal(size=variable.shape).astype(np.float32)
        variable.assign(value)
        values[variable.path.removeprefix("task_specific/t/")] = value
    tokens = random.normal(size=(3, 7, 4)).astype(np.float32)
    mask = np.ones((3, 7), int)
    mask[0, -1] = 0  # padding
    features = {
        "input_mask": mask,
        "segment_ids": np.arange(7) >= np.full((3, 1), 4),
        "start_positions": [4, 0, 5],
        "end_positions": [5, 0, 6],
        "is_impossible": [0, 1, 0],
    }
    features = {k: tf.constant(v, tf.int32) for k, v in features.items()}
    x = tf.constant(tokens)
    outputs = head(EncoderOutput(x, x[:, 0], [], x), features)
    penalties = np.full((3, 7), -1000.0)
    penalties[:, [0, 4, 5, 6]] = 0
    penalties[0, -1] = -1000
    if kind == "hugging_face":  # only padding
        penalties = -1000.0 * (1 - mask)
    return outputs, head.losses(outputs, features), tokens, values, penalties


@pytest.mark.parametrize("kind", ["electra", "hugging_face"])
def test_independent_ends_and_plain_classifiers_are_their_formulas(kind):
    outputs, losses, tokens, values, penalties = _run(
        kind,
        joint_prediction=False,
        answerable_uses_start_logits=False,
        answerable_weight=0.25,
    )
    expected = 0
    for side, layer, gold in (
        ("start", "dense", [4, 0, 5]),
        ("end", "dense_1", [5, 0, 6]),
    ):
        logits = _linear(tokens, values, layer)[..., 0] + penalties
        np.testing.assert_allclose(
            outputs[f"{side}_logits"], logits, rtol=1e-4, atol=1e-5
        )
        expected -= _log_softmax(logits)[range(3), gold] / 2
    assert ("answerable_logit" in outputs) == (kind == "electra")
    if kind == "electra":
        logits = _linear(tokens[:, 0], values, "dense_2")[:, 0]
        np.testing.assert_allclose(
            outputs["answerable_logit"], logits, rtol=1e-4
        )
        expected += 0.25 * (np.log1p(np.exp(logits)) - [0, 1, 0] * logits)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_a_beam_longer_than_a_row_is_padded_with_impossible_spans():
    outputs, _, tokens, values, penalties = _run(
        "electra", beam_size=9, answerable_classifier=False
    )
    assert outputs["start_top_index"].shape == [3, 9]
    assert outputs["end_top_index"].shape == [3, 9, 9]
    scores = outputs["start_top_log_probs"].numpy()
    assert (scores[:, 7:] < -1e8).all() and (scores[:, :3] > -100).all()
    assert not outputs["start_top_index"].numpy()[:, 7:].any()
    # The span at [CLS]: log p of its start, and of its end given the start.
    start = _log_softmax(_linear(tokens, values, "dense")[..., 0] + penalties)
    pair = np.concatenate([np.repeat(tokens[:, :1], 7, 1), tokens], -1)
    hidden = _linear(pair, values, "qa_hidden")
    hidden *= scipy.stats.norm.cdf(hidden)  # gelu
    end = _log_softmax(_linear(hidden, values, "dense_1")[..., 0] + penalties)
    np.testing.assert_allclose(
        outputs["null_log_prob"], start[:, 0] + end[:, 0], rtol=1e-3
    )
