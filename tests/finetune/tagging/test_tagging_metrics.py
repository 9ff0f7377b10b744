import json

import golden_arrays
import numpy as np
import pytest

from electra_tf.finetune.tagging.tagging_metrics import (
    TaggedSentence,
    TaggingScorer,
)

GOLDEN = json.loads(
    (golden_arrays.ROOT / "finetune/metrics.json").read_text("utf-8")
)


def _golden(name):
    """Returns labels, outputs and sentences, and the original's metrics."""
    case = GOLDEN[name]
    labels = sorted(case["label_mapping"], key=case["label_mapping"].get)
    mask = np.array(case["labels_mask"])
    examples = [
        TaggedSentence(
            eid,
            ("word",) * int(row.sum()),
            tuple(labels[i] for i in gold[: int(row.sum())]),
        )
        for eid, (gold, row) in enumerate(
            zip(case["labels"], mask, strict=True)
        )
    ]
    loss = np.array(case["loss"])
    outputs = _outputs(case["preds"], labels_mask=mask, loss=loss)
    return labels, outputs, examples, case["result"]


def _outputs(predictions, **others):
    """Returns the outputs of rows, each a whole sentence."""
    predictions = np.array(predictions)
    count = len(predictions)
    return {
        "predictions": predictions,
        "confidences": np.ones(predictions.shape),
        "labels_mask": np.ones(predictions.shape),
        "eid": np.arange(count),
        "first_word": np.zeros(count, int),
        "loss": np.ones(count),
        **others,
    }


def test_accuracy_is_that_of_the_original():
    labels, outputs, examples, expected = _golden("tagging_word_accuracy")
    found = TaggingScorer(labels).score(outputs, examples)
    assert found["accuracy"] == pytest.approx(expected["accuracy"], rel=1e-12)
    # The original adds each loss twice.
    assert 2 * found["loss"] == pytest.approx(expected["loss"], rel=1e-6)


def test_f1_of_spans_is_that_of_the_original_on_request():
    labels, outputs, examples, expected = _golden("tagging_entity_f1")
    scorer = TaggingScorer(labels, "BIOES", original_spans=True)
    found = scorer.score(outputs, examples)
    for name in ("precision", "recall", "f1"):
        assert found[name] == pytest.approx(expected[name], rel=1e-12)


def test_f1_counts_whole_spans():
    examples = [TaggedSentence(0, ("a",) * 5, ("B-X", "E-X", "O", "S-Y", "O"))]
    labels = ("B-X", "E-X", "O", "S-X", "S-Y")
    # One of three predicted spans is right, of two gold ones.
    outputs = _outputs([[0, 1, 2, 3, 4]], loss=np.array([10.0]))
    found = TaggingScorer(labels, "BIOES").score(outputs, examples)
    assert found["precision"] == pytest.approx(100 / 3)
    assert found["recall"] == pytest.approx(100 / 2)
    assert found["f1"] == pytest.approx(100 * 2 / 5)
    assert found["accuracy"] == pytest.approx(60) and found["loss"] == 2


def test_windows_of_a_sentence_are_put_together():
    examples = [TaggedSentence(0, ("a", "b", "c"), ("X", "Y", "X"))]
    outputs = _outputs(
        [[1, 0, 0], [0, 1, 0]],
        confidences=np.array([[0.1, 0.2, 0], [0.3, 0.4, 0]]),
        labels_mask=np.array([[0, 1, 0], [1, 0, 0]]),
        eid=np.array([0, 0]),
        first_word=np.array([1, 0]),
    )
    # Word 2 is the second of the first window, word 0 the first of the other.
    scorer = TaggingScorer(("X", "Y"))
    (answer,) = scorer.answers(outputs, examples)
    assert answer["prediction"] == ["X", "O", "X"]
    assert answer["confidences"] == [0.3, 0.0, 0.2]


def test_an_ensemble_tags_by_the_mean_probability():
    shares = np.array([[0.9, 0.05, 0.05], [0.1, 0.5, 0.4], [0.1, 0.2, 0.7]])
    others = np.array([[0.2, 0.6, 0.2], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4]])
    common = _outputs([[0] * 3], labels_mask=np.array([[1.0, 1.0, 0.0]]))
    outputs = [
        {**common, "logits": np.log(part)[None] + 7, "loss": np.full(1, i)}
        for i, part in enumerate((shares, others))
    ]
    scorer = TaggingScorer(("X", "Y", "Z"))
    joined = scorer.combine(outputs)
    tags, found = scorer.tags(joined, [TaggedSentence(0, ("a", "b"))])
    assert tags == [["X", "Z"]]
    np.testing.assert_allclose(found, [[0.55, 0.5]], rtol=1e-5)


def test_the_majority_baseline_is_the_most_frequent_tag_of_each_word():
    train = [
        TaggedSentence(0, ("a", "b", "a"), ("X", "Y", "X")),
        TaggedSentence(1, ("a", "c"), ("Y", "X")),
    ]
    dev = [TaggedSentence(0, ("b", "a", "new"), ("Y", "Y", "X"))]
    found = TaggingScorer(("X", "Y")).majority(train, dev)
    assert found == {"accuracy": pytest.approx(100 * 2 / 3)}
    train = [TaggedSentence(0, ("ann", "is", "it"), ("S-P", "O", "O"))]
    dev = [TaggedSentence(0, ("it", "ann", "bo"), ("O", "S-P", "S-P"))]
    found = TaggingScorer(("O", "S-P"), "BIOES").majority(train, dev)
    assert found["precision"] == 100 and found["recall"] == 50
