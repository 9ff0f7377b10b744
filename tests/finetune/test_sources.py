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

    def store(name, features, **splits):
        prepared_datasets.store(directory, f"{name}/1.0.0", features, splits)

    text, number = tfds.features.Text(), tf.int32
    label = tfds.features.ClassLabel(names=["unacceptable", "acceptable"])
    rows = {"sentence": ["b", "a ☃", "c"], "label": [0, 1, 1], "idx": [1, 0, 2]}
    store(
        "glue/cola",
        {"sentence": text, "label": label, "idx": number},
        train=rows,
        validation=rows,
        test={**rows, "label": [-1, -1, -1]},
    )
    names = ["entailment", "neutral", "contradiction"]
    label = tfds.features.ClassLabel(names=names)
    rows = {"premise": ["p"], "hypothesis": ["h"], "label": [2], "idx": [0]}
    store(
        "glue/mnli",
        {"premise": text, "hypothesis": text, "label": label, "idx": number},
        train=rows,
        validation_matched=rows,
        test_mismatched=rows,
    )
    tag = tfds.features.ClassLabel(names=["O", "B-X", "I-Y"])
    features = {
        "tokens": tfds.features.Sequence(text),
        "ner": tfds.features.Sequence(tag),
        "stars": tf.float32,
        "deep": {"text": text},
    }
    rows = {"tokens": [["a", "film"]] * 2, "ner": [[0, 1]] * 2}
    rows |= {"stars": [1.5, 4.0], "deep": {"text": ["good", "bad"]}}
    store("mine/", features, train=rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "DATA_DIR", str(directory))
        yield


def test_a_glue_task_from_tfds_has_the_examples_of_its_files(data_dir):
    task = tiny.task("cola", tfds_name="glue/cola")
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
    task = tiny.task("mnli", tfds_name="glue/mnli")
    for split in ("train", "dev_matched"):
        (example,) = task.get_examples(split)
        assert (example.text_a, example.text_b) == ("p", "h")
        assert example.label == "contradiction"
    splits = (*task.dev_splits, *task.test_splits)
    existing = [split for split in splits if task.source(split).exists]
    assert existing == ["dev_matched", "test_mismatched"]


def test_values_and_lists_are_read(data_dir):
    leaves = {"text_column": "deep.text", "label_column": "stars"}
    task = tiny.task("regression", tfds_name="mine", **leaves)
    examples = [(x.text_a, x.label) for x in task.get_examples("train")]
    assert examples == [("good", 1.5), ("bad", 4)]
    names = {"words_column": "tokens", "tags_column": "ner"}
    task = tiny.task("tagging", tfds_name="mine", **names)
    first, _ = task.get_examples("train")
    assert first.words == ("a", "film") and first.tags == ("O", "S-X")
    assert "B-Y" in task.labels  # though no row has it
    assert not task.source("dev").exists
