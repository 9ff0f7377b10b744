"""Heads against arrays of the original, and formulas in NumPy."""

import math

import golden_arrays
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.qa import qa_heads
from electra_tf.model.modeling import EncoderOutput

GOLDEN = dict(np.load(golden_arrays.HERE / "golden/finetune/head_qa.npz"))
BEAM = 5
CONFIGS = {
    "squad": QAConfig(beam_size=BEAM),
    "squad_noansw": QAConfig(beam_size=BEAM, answerable_classifier=False),
}
KEYS = np.arange(6, dtype=np.uint32)


def _assign_original_weights(variables):
    """Assigns the original's values, drawn in the order of the names."""
    random = np.random.RandomState(4242)
    for variable in sorted(variables, key=lambda v: v.path):
        value = random.randn(*variable.shape)
        if variable.path.endswith("gamma"):
            value = 1 + 0.2 * value
        else:
            value *= 0.2 if value.ndim == 1 else 0.1
        variable.assign(value.astype(np.float32))


def _golden_model(case):
    head = qa_heads.QAHead("squad", "electra", CONFIGS[case])
    model = tiny.golden_model(head)
    _assign_original_weights(model.trainable_variables)
    batch = {}
    for name, array in GOLDEN.items():
        if name.startswith("in/"):
            name = name.removeprefix("in/").removeprefix("squad_")
            batch[name] = tf.constant(array.astype(np.int32))
    for name in ("word_numbers", "numbers_in_word", "is_max_context"):
        batch[name] = batch["input_mask"]
    return model, head, batch


@pytest.mark.parametrize("case", CONFIGS)
def test_outputs_losses_and_gradients_are_those_of_the_original(case):
    model, head, batch = _golden_model(case)
    golden = {
        name.removeprefix(f"{case}/"): array for name, array in GOLDEN.items()
    }
    with tf.GradientTape() as tape:
        outputs = model.outputs("squad", batch, tf.constant(KEYS))
        losses = head.losses(outputs, batch)
        total = tf.reduce_sum(losses)
    np.testing.assert_allclose(losses, golden["train/loss"], rtol=2e-5)
    names = ["start_logits", "end_logits"]
    names += ["answerable_logit"] * (case == "squad")
    for name in names:
        np.testing.assert_allclose(
            outputs[name], golden[f"train/{name}"], rtol=2e-5, atol=5e-6
        )
    assert "start_top_index" not in outputs, "there is no beam in training"
    variables = model.trainable_variables
    gradients = tape.gradient(total, [v.value for v in variables])
    num_compared = 0
    for variable, gradient in zip(variables, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient).numpy()
        norm = np.linalg.norm(gradient.astype(float))
        expected = golden[f"norm/{variable.path}"]
        assert norm == pytest.approx(expected, rel=1e-4, abs=1e-5)
        expected = golden.get(f"grad/{variable.path}")
        if expected is not None:
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                gradient, expected, atol=3e-5 * scale + 1e-6
            )
            num_compared += 1
    assert num_compared >= 6
    found = model.outputs("squad", batch)
    for side in ("start", "end"):
        np.testing.assert_array_equal(
            found[f"{side}_top_index"], golden[f"predict/{side}_top_index"]
        )
        np.testing.assert_allclose(
            found[f"{side}_top_log_probs"],
            golden[f"predict/{side}_top_log_probs"],
            rtol=2e-5,
        )
    # Differs: the loss is that of training.
    np.testing.assert_allclose(
        head.losses(found, batch), golden["train/loss"], rtol=2e-5
    )
    for name in qa_heads.SCORER_COLUMNS:
        np.testing.assert_array_equal(found[name], batch[name])


OUTSIDE = np.full((3, 7), -1000.0)
OUTSIDE[:, [0, -3, -2, -1]] = 0  # [CLS], and the context
OUTSIDE[0, -1] = -1000  # padding


def _batch():
    """Returns random states, and rows with their context at the end."""
    random = np.random.default_rng(0)
    tokens = random.normal(size=(3, 7, 4)).astype(np.float32)
    segments = np.zeros((3, 7), int)
    segments[:, -3:] = 1
    mask = np.ones((3, 7), int)
    mask[0, -1] = 0
    features = {
        "input_mask": mask,
        "segment_ids": segments,
        "input_ids": mask,
        "word_numbers": mask,
        "numbers_in_word": mask,
        "is_max_context": mask,
        "start_positions": [4, 0, 5],
        "end_positions": [5, 0, 6],
        "is_impossible": [0, 1, 0],
    }
    features = {k: tf.constant(v, tf.int32) for k, v in features.items()}
    x = tf.constant(tokens)
    return tokens, EncoderOutput(x, x[:, 0], [], x), features


def _random_head(kind="electra", **fields):
    head = qa_heads.QAHead("t", kind, QAConfig(**fields)).build_for(4)
    random = np.random.default_rng(1)
    values = {}
    for variable in head.variables:
        value = random.normal(size=variable.shape).astype(np.float32)
        variable.assign(value)
        values[variable.path.removeprefix("task_specific/t/")] = value
    return head, values


def _log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _linear(x, values, name):
    return x @ values[f"{name}/kernel"] + values[f"{name}/bias"]


def _gelu(x):
    return x * (np.vectorize(math.erf)(x / math.sqrt(2)) / 2 + 0.5)


def _span_losses(logits, features):
    rows = np.arange(len(logits[0]))
    sides = [
        -_log_softmax(x)[rows, features[f"{side}_positions"].numpy()]
        for side, x in zip(("start", "end"), logits, strict=True)
    ]
    return sum(sides) / 2


@pytest.mark.parametrize("kind", ["plain", "uses_start", "hugging_face"])
def test_independent_start_end_and_classifier_are_their_formulas(kind):
    is_theirs, uses_start = kind == "hugging_face", kind == "uses_start"
    head, values = _random_head(
        "hugging_face" if is_theirs else "electra",
        joint_prediction=False,
        answerable_uses_start_logits=uses_start,
        answerable_weight=0.25,
    )
    layers = ["dense", "dense_1"] + ["dense_2"] * (not is_theirs)
    layers += ["dense_3"] * uses_start
    assert sorted({name.split("/")[0] for name in values}) == layers
    tokens, states, features = _batch()
    outside = OUTSIDE
    if is_theirs:  # only padding
        outside = -1000.0 * (features["input_mask"].numpy() == 0)
    logits = [_linear(tokens, values, x)[..., 0] + outside for x in layers[:2]]
    outputs = head(states, features)
    for side, expected in zip(("start", "end"), logits, strict=True):
        np.testing.assert_allclose(
            outputs[f"{side}_logits"], expected, rtol=1e-4, atol=1e-5
        )
    losses = _span_losses(logits, features)
    if not is_theirs:
        x = tokens[:, 0]
        if uses_start:
            weights = np.exp(_log_softmax(logits[0]))
            start = np.einsum("bl,blh->bh", weights, tokens)
            x = np.concatenate([x, start], -1)
            x = _gelu(_linear(x, values, "dense_2"))
        answerable = _linear(x, values, layers[-1])[:, 0]
        np.testing.assert_allclose(
            outputs["answerable_logit"], answerable, rtol=1e-4
        )
        entropy = np.log1p(np.exp(answerable)) - [0, 1, 0] * answerable
        losses += 0.25 * entropy
    assert ("answerable_logit" in outputs) == (not is_theirs)
    np.testing.assert_allclose(
        head.losses(outputs, features), losses, rtol=1e-4
    )


def test_a_beam_longer_than_a_row_is_padded_with_impossible_spans():
    head, values = _random_head(beam_size=9, answerable_classifier=False)
    tokens, states, features = _batch()
    outputs = head(states, features)
    assert outputs["start_top_index"].shape == [3, 9]
    assert outputs["end_top_index"].shape == [3, 9, 9]
    scores = outputs["start_top_log_probs"].numpy()
    assert (scores[:, 7:] < -1e8).all() and (scores[:, :3] > -100).all()
    assert not outputs["start_top_index"].numpy()[:, 7:].any()
    # The span at [CLS]: log p of its start, and of its end given the start.
    start = _log_softmax(_linear(tokens, values, "dense")[..., 0] + OUTSIDE)
    pair = np.concatenate([np.repeat(tokens[:, :1], 7, 1), tokens], -1)
    hidden = _gelu(_linear(pair, values, "qa_hidden"))
    end = _log_softmax(_linear(hidden, values, "dense_1")[..., 0] + OUTSIDE)
    np.testing.assert_allclose(
        outputs["null_log_prob"], start[:, 0] + end[:, 0], rtol=1e-3
    )
