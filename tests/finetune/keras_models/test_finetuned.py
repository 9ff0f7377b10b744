"""Models that `run_finetuning` trained, as Keras models."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.finetune.preprocessing import Features
from electra_tf.util.errors import UserError

SENTENCES = ["the good film", "it was a bad plot and it was very very bad"] * 2
WORDS = [text.split() for text in SENTENCES]
TAGS = [["THE" if w == "the" else "WORD" for w in words] for words in WORDS]
ANSWERS = [(4, "good film"), None] * 2
QUESTIONS = [
    {"id": str(i), "question": "the film", "is_impossible": not x, "answers": x}
    for i, x in enumerate([[{"answer_start": 4, "text": "good film"}], []] * 2)
]
PARAGRAPHS = [
    {"context": text, "qas": [question]}
    for text, question in zip(SENTENCES, QUESTIONS, strict=True)
]

# Task -> lines of its files, class, inputs, targets.
CASES = {
    "sst": (
        [
            "sentence\tlabel",
            *(f"{text}\t{i % 2}" for i, text in enumerate(SENTENCES)),
        ],
        "ElectraClassifier",
        SENTENCES,
        ["0", "1", "0", "1"],
    ),
    "sts": (
        [
            "\t".join("x" * 10),
            *(
                f"0\t1\t2\t3\t4\t5\t6\t{x}\tthe film\t{i}"
                for i, x in enumerate(SENTENCES)
            ),
        ],
        "ElectraRegressor",
        [(text, "the film") for text in SENTENCES],
        [0, 1, 2, 3],
    ),
    "ccg": (
        [
            "\n".join(map(" ".join, zip(*rows, strict=True))) + "\n"
            for rows in zip(WORDS, TAGS, strict=True)
        ],
        "ElectraTagger",
        WORDS,
        TAGS,
    ),
    "squad": (
        [json.dumps({"data": [{"paragraphs": PARAGRAPHS}]})],
        "ElectraQA",
        (["the film"] * 4, SENTENCES),
        ANSWERS,
    ),
}
"""Some words are not in the vocabulary."""


def _trial(name, tmp_path, head="electra"):
    """Returns a task with files, and the directory of a random model."""
    lengths = {"max_seq_length": 12, "max_query_length": 2, "doc_stride": 3}
    task = tiny.task(name, tmp_path, head=head, **lengths)
    for split in ("train", "dev"):
        tiny.write_split(task, split, "\n".join([*CASES[name][0], ""]))
    directory = tmp_path / "trial/model"
    tiny.write_trained(directory, task)
    return task, directory


@pytest.mark.parametrize(
    ("name", "head"),
    [
        *((name, "electra") for name in CASES),
        *((name, "hugging_face") for name in ("sst", "sts", "squad")),
    ],
)
def test_rows_outputs_and_gradients_are_those_of_run_finetuning(
    name, head, tmp_path
):
    task, directory = _trial(name, tmp_path, head)
    theirs = electra_tf.Predictor(directory).model
    _, class_name, x, y = CASES[name]
    cls = getattr(electra_tf, class_name)
    mine = cls.from_finetuned(str(directory.parent))
    assert mine.max_seq_length == 12
    assert getattr(mine, "labels", ()) == task.labels

    is_qa = name == "squad"
    rows = task.featurize(task.get_examples("dev"), is_training=is_qa)
    features = Features(rows)
    batch = features.batch(tf.range(features.num_rows), features.length)
    found = next(iter(mine.dataset(x, y)))
    inputs, *targets = found if isinstance(found, tuple) else (found,)
    for key, value in inputs.items():
        np.testing.assert_array_equal(value, batch[key], err_msg=key)

    low, high = task.value_range if name == "sts" else (0, 1)
    with tf.GradientTape(persistent=True) as tape:
        outputs = mine(inputs)
        if is_qa:
            loss = mine.compute_loss(inputs, y_pred=outputs)
        else:
            loss = mine.LOSS(targets[0], outputs, *targets[1:])
        expected = theirs.outputs(name, batch)
        losses = theirs.heads[name].losses(expected, batch)
        # Keras' loss is in the units of the values.
        total = tf.reduce_mean(losses) * (high - low) ** 2
    if is_qa:
        outputs, expected = outputs["start_logits"], expected["start_logits"]
    elif name == "sts":
        expected = low + (high - low) * expected["logits"]
    else:
        expected = expected["logits"]
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    assert float(loss) == pytest.approx(float(total), rel=1e-5)
    one, other = (
        {
            v.path: tf.convert_to_tensor(tape.gradient(x, v.value))
            for v in model.encoder.trainable_variables
        }
        for x, model in ((loss, mine), (total, theirs))
    )
    largest = max(np.abs(x).max() for x in other.values())
    assert largest > 0.01
    for path, gradient in other.items():
        np.testing.assert_allclose(
            one[path], gradient, rtol=1e-4, atol=1e-6 * largest
        )


def test_a_head_of_another_task_is_refused(tmp_path):
    _, directory = _trial("ccg", tmp_path)
    path = str(directory)
    for name in ("ElectraClassifier", "ElectraRegressor"):
        with pytest.raises(UserError):
            getattr(electra_tf, name).from_finetuned(path)
    tagger = electra_tf.ElectraTagger
    assert tagger.from_finetuned(path, max_seq_length=9).max_seq_length == 9
    with pytest.raises(UserError):
        tagger.from_finetuned(path, "pos")
    new = tagger.from_checkpoint(path, 5)
    assert new.head.num_tags == 5 and new.labels == ()
