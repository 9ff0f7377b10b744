import json

import golden_arrays
import numpy as np
import pytest

from electra_tf.finetune.preprocessing import TaggedSentence
from electra_tf.finetune.tagging.tagging_metrics import TaggingScorer

GOLDEN = json.loads(
    (golden_arrays.ROOT / "finetune/metrics.json").read_text("utf-8")
)


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


@pytest.mark.parametrize(
    ("case", "encoding", "names"),
    [
        ("tagging_word_accuracy", "", ["accuracy"]),
        ("tagging_entity_f1", "BIOES", ["precision", "recall", "f1"]),
    ],
)
def test_metrics_are_those_of_the_original(case, encoding, names):
    case = GOLDEN[case]
    labels = sorted(case["label_mapping"], key=case["label_mapping"].get)
    examples = []
    for eid, mask in enumerate(case["labels_mask"]):
        count = int(sum(mask))
        tags = tuple(labels[i] for i in case["labels"][eid][:count])
        examples.append(TaggedSentence(eid, ("word",) * count, tags))
    outputs = _outputs(
        case["preds"],
        labels_mask=np.array(case["labels_mask"]),
        loss=np.array(case["loss"]),
    )
    scorer = TaggingScorer(labels, encoding, original_spans=True)
    found = scorer.score(outputs, examples)
    for name in names:
        assert found[name] == pytest.approx(case["result"][name], rel=1e-12)
    # The original adds each loss twice.
    assert 2 * found["loss"] == pytest.approx(case["result"]["loss"], rel=1e-6)


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
    (answer,) = TaggingScorer(("X", "Y")).answers(outputs, examples)
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
        TaggedSentence(0, ("a", "b", "a"), ("S-X", "O", "S-X")),
        TaggedSentence(1, ("a", "c"), ("O", "S-X")),
    ]
    dev = [TaggedSentence(0, ("b", "a", "new"), ("O", "O", "S-X"))]
    found = TaggingScorer(("O", "S-X"), "BIOES").majority(train, dev)
    expected = {"accuracy": 2 / 3, "precision": 1 / 2, "recall": 1, "f1": 2 / 3}
    for name, value in expected.items():
        assert found[name] == pytest.approx(100 * value)
