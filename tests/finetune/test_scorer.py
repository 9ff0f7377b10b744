"""Metrics and answers of tasks, from the outputs of their heads."""

import json

import golden_arrays
import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import scorer
from electra_tf.finetune.preprocessing import InputExample, TaggedSentence

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
    compute = scorer.classification_metrics
    if case == "regression":
        compute = scorer.regression_metrics
    case = GOLDEN[case]
    found = compute(np.array(case["labels"]), np.array(case["preds"]))
    for name in names:
        assert found[name] == pytest.approx(case["result"][name], rel=1e-12)


def test_a_constant_side_has_no_correlation_and_no_r2():
    # The float mean of such constants differs from them.
    same, other, rising = np.full(3, 0.1), np.full(3, 0.2), np.arange(3.0)
    for x, y in ((same, other), (same, rising), (rising, same)):
        found = scorer.regression_metrics(x, y)
        assert found["pearson"] == found["spearman"] == 0
        assert x is rising or found["r2"] == 0


def test_precision_recall_and_f1_are_of_class_1_and_macro_f1_of_all():
    labels = np.array([1, 1, 1, 0, 0, 1])
    found = scorer.classification_metrics(labels, np.array([1, 0, 1, 1, 0, 0]))
    expected = {"precision": 2 / 3, "recall": 2 / 4, "f1": 4 / 7}
    expected["macro_f1"] = (4 / 7 + 2 / 5) / 2
    for name, value in expected.items():
        assert found[name] == pytest.approx(100 * value)


def test_a_range_of_labels_may_begin_anywhere():
    task = tiny.task("regression", value_range=(1.0, 5.0))
    outputs = {
        "logits": np.array([[-0.5], [0.25], [1.25]], np.float32),
        "loss": np.zeros(3),
    }
    examples = _examples(1, 2, 5)
    answers = task.answers(outputs, examples)
    assert [answer["prediction"] for answer in answers] == [1.0, 2.0, 5.0]
    mse = (0.5**2 + 0 + 0.25**2) / 3  # of values that are not clipped
    assert task.score(outputs, examples)["mse"] == pytest.approx(mse)


@pytest.mark.parametrize(
    ("name", "labels", "values", "expected"),
    [
        ("sst", "01", [[1.0, 0.0], [0.2, 0.1]], True),
        ("sst", "00", [[1.0, 0.0], [0.2, 0.1]], False),
        ("sts", (2.0, 3.0), [[0.4], [0.4]], True),
        ("sts", (2.0, 3.0), [[0.3], [0.4]], False),
        ("sts", (2.0, 3.0), [[-0.3], [-0.4]], True),  # both answers are 0
    ],
)
def test_one_answer_to_different_labels_is_degenerate(
    name, labels, values, expected
):
    outputs = {"logits": np.array(values)}
    is_degenerate = tiny.task(name).is_degenerate(outputs, _examples(*labels))
    assert is_degenerate == expected


@pytest.mark.parametrize(
    ("case", "scheme", "names"),
    [
        ("tagging_word_accuracy", "tags", ["accuracy"]),
        ("tagging_entity_f1", "spans", ["precision", "recall", "f1"]),
    ],
)
def test_metrics_of_tags_are_those_of_the_original(case, scheme, names):
    case = GOLDEN[case]
    labels = sorted(case["label_mapping"], key=case["label_mapping"].get)
    mask = np.array(case["labels_mask"])
    examples = []
    for eid, count in enumerate(mask.sum(1).astype(int)):
        tags = tuple(labels[i] for i in case["labels"][eid][:count])
        examples.append(TaggedSentence(eid, ("word",) * count, tags))
    outputs = {
        "predictions": np.array(case["preds"]),
        "confidences": np.ones(mask.shape),
        "labels_mask": mask,
        "eid": np.arange(len(mask)),
        "first_word": np.zeros(len(mask), int),
        "loss": np.array(case["loss"]),
    }
    task = tiny.task(
        "tagging",
        tag_scheme=scheme,
        metadata={"labels": labels},
        original_behaviour=("spans",),
    )
    found = task.score(outputs, examples)
    for name in names:
        assert found[name] == pytest.approx(case["result"][name], rel=1e-12)
    # The original adds each loss twice.
    assert 2 * found["loss"] == pytest.approx(case["result"]["loss"], rel=1e-6)


def test_windows_of_a_sentence_are_put_together():
    examples = [TaggedSentence(0, ("a", "b", "c"), ("X", "Y", "X"))]
    outputs = {
        "predictions": np.array([[1, 0, 0], [0, 1, 0]]),
        "confidences": np.array([[0.1, 0.2, 0], [0.3, 0.4, 0]]),
        "labels_mask": np.array([[0, 1, 0], [1, 0, 0]]),
        "eid": np.array([0, 0]),
        "first_word": np.array([1, 0]),
    }
    # Word 2 is the second of the first window, word 0 the first of the other.
    task = tiny.task("ccg", metadata={"labels": ("X", "Y")})
    (answer,) = task.answers(outputs, examples)
    assert answer["prediction"] == ["X", "O", "X"]
    assert answer["confidences"] == [0.3, 0.0, 0.2]
