import json

import golden_arrays
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from electra_tf.finetune.classification import classification_metrics as metrics
from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
)
from electra_tf.finetune.preprocessing import InputExample
from electra_tf.model.modeling import EncoderOutput

GOLDEN = json.loads(
    (golden_arrays.ROOT / "finetune/metrics.json").read_text("utf-8")
)


def _examples(*labels):
    return [InputExample(i, "", None, x) for i, x in enumerate(labels)]


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("accuracy", ["accuracy"]),
        ("mcc", ["mcc"]),
        ("mcc_constant_pred", ["mcc"]),
        ("regression", ["pearson", "spearman"]),
    ],
)
def test_values_are_those_of_the_original(case, names):
    compute = metrics.classification_metrics
    if case == "regression":
        compute = metrics.regression_metrics
    case = GOLDEN[case]
    found = compute(np.array(case["labels"]), np.array(case["preds"]))
    for name in names:
        assert found[name] == pytest.approx(case["result"][name], rel=1e-12)


def test_a_constant_side_has_no_correlation_and_no_r2():
    # The float mean of such constants differs from them.
    same, other, rising = np.full(3, 0.1), np.full(3, 0.2), np.arange(3.0)
    for x, y in ((same, other), (same, rising), (rising, same)):
        found = metrics.regression_metrics(x, y)
        assert found["pearson"] == found["spearman"] == 0
        assert x is rising or found["r2"] == 0


def test_precision_recall_and_f1_are_of_class_1_and_macro_f1_of_all():
    labels = np.array([1, 1, 1, 0, 0, 1])
    found = metrics.classification_metrics(labels, np.array([1, 0, 1, 1, 0, 0]))
    expected = {"precision": 2 / 3, "recall": 2 / 4, "f1": 4 / 7}
    expected["macro_f1"] = (4 / 7 + 2 / 5) / 2
    for name, value in expected.items():
        assert found[name] == pytest.approx(100 * value)


def test_a_range_of_labels_may_begin_anywhere():
    outputs = {
        "eid": np.arange(3),
        "predictions": np.array([-0.5, 0.25, 1.25], np.float32),
        "loss": np.zeros(3),
    }
    scorer, examples = metrics.RegressionScorer(1.0, 5.0), _examples(1, 2, 5)
    answers = scorer.answers(outputs, examples)
    assert [answer["prediction"] for answer in answers] == [1.0, 2.0, 5.0]
    mse = (0.5**2 + 0 + 0.25**2) / 3  # of values that are not clipped
    assert scorer.score(outputs, examples)["mse"] == pytest.approx(mse)


def test_one_answer_to_different_labels_is_degenerate():
    scorer = metrics.ClassificationScorer("01")
    outputs = {"logits": np.array([[1.0, 0.0], [0.2, 0.1]])}
    assert scorer.is_degenerate(outputs, _examples(*"01"))
    assert not scorer.is_degenerate(outputs, _examples(*"00"))
    scorer = metrics.RegressionScorer(0.0, 5.0)
    for values, expected in (
        ([0.4, 0.4], True),
        ([0.3, 0.4], False),
        ([-0.3, -0.4], True),  # both answers are 0
    ):
        outputs = {"predictions": np.array(values)}
        assert scorer.is_degenerate(outputs, _examples(2.0, 3.0)) is expected


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
