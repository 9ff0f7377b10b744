import json
import math
import tracemalloc

import golden_arrays
import numpy as np
import pytest

from electra_tf.finetune.classification import classification_metrics as metrics
from electra_tf.finetune.examples import InputExample

GOLDEN = json.loads(
    (golden_arrays.ROOT / "finetune/metrics.json").read_text("utf-8")
)
LABELS = np.array([0, 1, 2, 2, 1, 0, 1])
PREDICTIONS = np.array([0, 1, 2, 1, 1, 2, 0])


def _golden(name):
    case = GOLDEN[name]
    return np.array(case["labels"]), np.array(case["preds"]), case["result"]


def _examples(*labels):
    return [InputExample(i, "", None, x) for i, x in enumerate(labels)]


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("accuracy", "accuracy"),
        ("mcc", "mcc"),
        ("regression", "pearson"),
        ("regression", "spearman"),
    ],
)
def test_values_are_those_of_the_original(case, name):
    labels, predictions, expected = _golden(case)
    metric = {**metrics.CLASSIFICATION, **metrics.REGRESSION}[name]
    found = metric(labels, predictions)
    assert found == pytest.approx(expected[name], rel=1e-12)


def test_constants_have_no_correlation_and_no_r2():
    labels, predictions, expected = _golden("mcc_constant_pred")
    found = metrics.matthews_correlation(labels, predictions)
    assert found == expected["mcc"] == 0
    # The float mean of such constants differs from them.
    same, other, rising = np.full(3, 0.1), np.full(3, 0.2), np.arange(3.0)
    for x, y in ((same, other), (same, rising), (rising, same)):
        assert metrics.pearson(x, y) == metrics.spearman(x, y) == 0
    assert metrics.r2(same, other) == metrics.r2(same, rising) == 0


def test_matthews_correlation_of_many_classes():
    # Gorodkin's formula, from the confusion matrix.
    confusion = np.zeros((3, 3))
    for label, prediction in zip(LABELS, PREDICTIONS, strict=True):
        confusion[label, prediction] += 1
    n, right = confusion.sum(), np.trace(confusion)
    gold, guess = confusion.sum(1), confusion.sum(0)
    expected = (n * right - gold @ guess) / math.sqrt(
        (n**2 - guess @ guess) * (n**2 - gold @ gold)
    )
    found = metrics.matthews_correlation(LABELS, PREDICTIONS)
    assert found == pytest.approx(100 * expected)


def test_the_memory_of_metrics_does_not_grow_with_the_number_of_classes():
    labels = np.arange(4000) % 2000
    predictions = np.where(np.arange(4000) < 3000, labels, 0)
    scorer = metrics.ClassificationScorer(
        list(map(str, range(2000))), ("accuracy", "macro_f1", "mcc")
    )
    tracemalloc.start()
    found = scorer.metrics(labels, predictions)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20  # an indicator of each row and class takes 8 million
    assert found["accuracy"] == 75 and 70 < found["mcc"] < 80


def test_f1_counts_only_the_positive_class():
    labels = np.array([1, 1, 1, 0, 0, 1])
    predictions = np.array([1, 0, 1, 1, 0, 0])
    precision, recall, f1 = metrics.precision_recall_f1(labels, predictions)
    assert precision == pytest.approx(100 * 2 / 3)
    assert recall == pytest.approx(50)
    assert f1 == pytest.approx(100 * 2 * 2 / (3 + 4))
    nothing = metrics.precision_recall_f1(labels, np.zeros(6, int))
    assert nothing == (0, 0, 0)


def test_metrics_of_the_second_label_have_their_names():
    labels = np.array([1, 1, 1, 0, 0, 1])
    predictions = np.array([1, 0, 1, 1, 0, 0])
    names = ("precision", "recall", "f1")
    found = [metrics.CLASSIFICATION[n](labels, predictions) for n in names]
    expected = [100 * 2 / 3, 100 * 2 / 4, 100 * 4 / 7]
    np.testing.assert_allclose(found, expected)


def test_macro_f1_counts_a_class_that_is_only_predicted():
    found = metrics.macro_f1(np.array([0, 0]), np.array([0, 1]))
    assert found == pytest.approx(100 * (2 / 3 + 0) / 2)


def test_equal_values_share_the_mean_of_their_ranks():
    x = np.array([3.0, 1.0, 3.0, 2.0, 3.0])
    ranks = np.array([4, 1, 4, 2, 4])
    y = np.array([1.0, 2.0, 5.0, 3.0, 4.0])
    expected = 100 * np.corrcoef(ranks, y)[0, 1]
    assert metrics.spearman(x, y) == pytest.approx(expected)


def test_the_class_of_the_highest_logit_is_the_answer():
    examples = _examples(*"ab")
    outputs = {
        "eid": np.arange(2),
        "logits": np.array([[2.0, 0.0], [0.0, 1.0]]),
        "loss": np.array([0.5, 1.5]),
    }
    scorer = metrics.ClassificationScorer(("a", "b"))
    assert scorer.score(outputs, examples) == {"accuracy": 100, "loss": 1.0}
    answers = scorer.answers(outputs, examples)
    assert [answer["prediction"] for answer in answers] == ["a", "b"]
    sigmoid = 1 / (1 + math.exp(-2))
    assert answers[0]["probabilities"]["a"] == pytest.approx(sigmoid)


def test_a_regression_answers_in_its_own_range():
    examples = _examples(0, 5)
    outputs = {
        "eid": np.arange(2),
        "predictions": np.array([0.5, 1.5], np.float32),
        "loss": np.array([0.25, 0.25]),
    }
    scorer = metrics.RegressionScorer(0.0, 5.0)
    answers = scorer.answers(outputs, examples)
    assert [answer["prediction"] for answer in answers] == [2.5, 5.0]
    assert scorer.score(outputs, examples)["mse"] == pytest.approx(0.25)


def test_a_range_of_labels_may_begin_anywhere():
    examples = _examples(1.0, 2.0, 5.0)
    outputs = {
        "eid": np.arange(3),
        "predictions": np.array([-0.5, 0.25, 1.25], np.float32),
        "loss": np.zeros(3),
    }
    scorer = metrics.RegressionScorer(1.0, 5.0)
    answers = scorer.answers(outputs, examples)
    assert [answer["prediction"] for answer in answers] == [1.0, 2.0, 5.0]
    mse = (0.5**2 + 0 + 0.25**2) / 3  # of values that are not clipped
    assert scorer.score(outputs, examples)["mse"] == pytest.approx(mse)


def test_a_constant_prediction_is_degenerate_only_if_labels_differ():
    scorer = metrics.ClassificationScorer(("0", "1"))
    same = {"logits": np.array([[1.0, 0.0], [0.2, 0.1]])}
    assert scorer.is_degenerate(same, _examples("0", "1"))
    assert not scorer.is_degenerate(same, _examples("0", "0"))
    assert not scorer.is_degenerate(same, _examples("1", "1"))
    other = {"logits": np.array([[1.0, 0.0], [0.1, 0.2]])}
    assert not scorer.is_degenerate(other, _examples("0", "1"))
    regression = metrics.RegressionScorer(0.0, 5.0)
    constant = {"predictions": np.full(2, 0.4)}
    assert not regression.is_degenerate(constant, _examples(2.0, 2.0))
    assert regression.is_degenerate(constant, _examples(2.0, 3.0))
    two = {"predictions": np.array([0.3, 0.4])}
    assert not regression.is_degenerate(two, _examples(2.0, 3.0))
    clipped = {"predictions": np.array([-0.3, -0.4])}  # both answers are 0
    assert regression.is_degenerate(clipped, _examples(2.0, 3.0))
    one_end = {"predictions": np.array([-0.3, 1.4])}
    assert not regression.is_degenerate(one_end, _examples(2.0, 3.0))


def test_the_majority_baseline_is_the_most_frequent_training_label():
    train, dev = _examples(*"abbc"), _examples(*"aabac")
    scorer = metrics.ClassificationScorer("abc", ("mcc", "accuracy"))
    found = scorer.majority(train, dev)
    assert found == {"mcc": 0, "accuracy": pytest.approx(100 * 1 / 5)}


def test_the_majority_baseline_of_a_regression_is_the_training_mean():
    train, dev = _examples(0, 1, 5), _examples(1.0, 4.0)
    found = metrics.RegressionScorer(0.0, 5.0).majority(train, dev)
    mse = ((1 - 2) ** 2 + (4 - 2) ** 2) / 2 / 5**2
    assert found == {"pearson": 0, "spearman": 0, "mse": pytest.approx(mse)}


def test_an_ensemble_of_classifiers_averages_probabilities():
    random = np.random.default_rng(5)
    logits = random.normal(0, 9, (3, 4, 2)).astype(np.float32)
    logits[0, 0] = (800, -800)  # whose exp overflows
    outputs = [
        {"eid": np.arange(4), "logits": part, "loss": np.full(4, i)}
        for i, part in enumerate(logits)
    ]
    scorer = metrics.ClassificationScorer(("a", "b"))
    joined = scorer.combine(outputs)
    expected = np.mean(1 / (1 + np.exp(logits[..., 1] - logits[..., 0])), 0)
    answers = scorer.answers(joined, _examples(*[None] * 4))
    found = [answer["probabilities"]["a"] for answer in answers]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert joined["loss"].tolist() == [1] * 4


def test_an_ensemble_of_regressions_averages_values():
    outputs = [
        {"eid": np.arange(2), "predictions": np.float32(x), "loss": np.zeros(2)}
        for x in ([0.1, 0.8], [0.3, 0.4])
    ]
    joined = metrics.RegressionScorer(0.0, 1.0).combine(outputs)
    np.testing.assert_allclose(joined["predictions"], [0.2, 0.6], rtol=1e-6)


def test_macro_f1_and_r2_are_their_formulas():
    labels, predictions = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 2, 0])
    # F1 = 2 hits / (gold + found), class by class.
    f1 = [2 * 1 / (2 + 2), 2 * 1 / (1 + 2), 2 * 1 / (2 + 1)]
    found = metrics.macro_f1(labels, predictions)
    assert found == pytest.approx(100 * sum(f1) / 3)
    never = metrics.macro_f1(np.array([0, 1]), np.array([0, 0]))
    assert never == pytest.approx(100 * (2 / 3 + 0) / 2)
    x, y = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 3.0])
    expected = 100 * (1 - (0.25 + 1) / (3 * np.var(x)))
    assert metrics.r2(x, y) == pytest.approx(expected)


def test_a_scorer_computes_the_metrics_it_is_given():
    scorer = metrics.ClassificationScorer("ab", ("mcc", "f1", "recall"), "f1")
    found = scorer.metrics(np.array([0, 1, 1]), np.array([1, 1, 0]))
    assert list(found) == ["mcc", "f1", "recall"]
    assert found["f1"] == pytest.approx(50) and scorer.main_metric == "f1"
    plain = metrics.ClassificationScorer("ab", ("mcc", "accuracy"))
    assert plain.main_metric == "mcc"
