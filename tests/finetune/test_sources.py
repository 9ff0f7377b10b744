"""Tasks read from files, and from prepared TensorFlow Datasets."""

import prepared_datasets
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tiny_finetuning as tiny
from tensorflow_datasets.core import constants


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds")
    text, number = tfds.features.Text(), tf.int32
    names = ["unacceptable", "acceptable"]
    features = {
        "sentence": text,
        "label": tfds.features.ClassLabel(names=names),
        "idx": number,
    }
    rows = {"sentence": ["b", "a ☃", "c"], "label": [0, 1, 1]}
    rows["idx"] = [1, 0, 2]
    unknown = {**rows, "label": [-1, -1, -1]}
    splits = {"train": rows, "validation": rows, "test": unknown}
    prepared_datasets.store(directory, "glue/cola/1.0.0", features, splits)
    names = ["entailment", "neutral", "contradiction"]
    features = {
        "premise": text,
        "hypothesis": text,
        "label": tfds.features.ClassLabel(names=names),
        "idx": number,
    }
    rows = {"premise": ["p"], "hypothesis": ["h"], "label": [2], "idx": [0]}
    splits = dict.fromkeys(["train", "validation_matched"], rows)
    splits["test_mismatched"] = rows
    prepared_datasets.store(directory, "glue/mnli/1.0.0", features, splits)
    features = {
        "tokens": tfds.features.Sequence(text),
        "ner": tfds.features.Sequence(
            tfds.features.ClassLabel(names=["O", "B-X", "I-Y"])
        ),
        "stars": tf.float32,
        "deep": {"text": text},
    }
    rows = {"tokens": [["a", "film"]] * 2, "ner": [[0, 1]] * 2}
    rows |= {"stars": [1.5, 4.0], "deep": {"text": ["good", "bad"]}}
    prepared_datasets.store(directory, "mine//1.0.0", features, {"train": rows})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "DATA_DIR", str(directory))
        yield


def _task(name, tfds_name, **leaves):
    return tiny.task(name, tfds_name=tfds_name, **leaves)


def test_a_glue_task_from_tfds_has_the_examples_of_its_files(data_dir):
    task = _task("cola", "glue/cola")
    for split in ("train", "dev"):
        examples = task.get_examples(split)
        assert [(x.eid, x.text_a, x.label) for x in examples] == [
            (0, "a ☃", "1"),
            (1, "b", "0"),
            (2, "c", "1"),
        ]
    assert [x.label for x in task.get_examples("test")] == [None] * 3
    assert task.source("test").exists


def test_tfds_classes_become_the_label_names_of_the_files(data_dir):
    task = _task("mnli", "glue/mnli")
    for split in ("train", "dev_matched"):
        (example,) = task.get_examples(split)
        assert (example.text_a, example.text_b) == ("p", "h")
        assert example.label == "contradiction"
    assert [x for x in task.dev_splits if task.source(x).exists] == [
        "dev_matched"
    ]
    assert [x for x in task.test_splits if task.source(x).exists] == [
        "test_mismatched"
    ]


def test_values_and_lists_are_read(data_dir):
    leaves = {"text_column": "deep.text", "label_column": "stars"}
    task = _task("own", "mine", task_kind="regression", **leaves)
    examples = task.get_examples("train")
    assert [(x.text_a, x.label) for x in examples] == [
        ("good", 1.5),
        ("bad", 4),
    ]
    names = {"words_column": "tokens", "tags_column": "ner"}
    task = _task("own", "mine", task_kind="tagging", **names)
    first, _ = task.get_examples("train")
    assert first.words == ("a", "film") and first.tags == ("O", "S-X")
    assert "B-Y" in task.labels  # though no row has it
    assert not task.source("dev").exists
