"""Tasks read from files, and from prepared TensorFlow Datasets."""

import prepared_datasets
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tiny_finetuning as tiny

from electra_tf.finetune import task_builder
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.util.errors import UserError


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
    return directory


def _task(data_dir, name, tfds_name, **leaves):
    return tiny.task(
        name, tfds_name=tfds_name, tfds_data_dir=str(data_dir), **leaves
    )


def test_a_glue_task_from_tfds_has_the_examples_of_its_files(data_dir):
    task = _task(data_dir, "cola", "glue/cola")
    for split in ("train", "dev"):
        examples = task.get_examples(split)
        assert [(x.eid, x.text_a, x.label) for x in examples] == [
            (0, "a ☃", "1"),
            (1, "b", "0"),
            (2, "c", "1"),
        ]
    assert [x.label for x in task.get_examples("test")] == [None] * 3
    assert task.existing_splits(task.test_splits) == ["test"]


def test_tfds_classes_become_the_label_names_of_the_files(data_dir):
    task = _task(data_dir, "mnli", "glue/mnli")
    for split in ("train", "dev_matched"):
        (example,) = task.get_examples(split)
        assert (example.text_a, example.text_b) == ("p", "h")
        assert example.label == "contradiction"
    assert task.existing_splits(task.dev_splits) == ["dev_matched"]
    assert task.existing_splits(task.test_splits) == ["test_mismatched"]


def test_tfds_class_names_are_the_labels_of_a_custom_task(data_dir):
    leaves = {"task_kind": "classification", "text_column": "sentence"}
    task = _task(data_dir, "own", "glue/cola", **leaves)
    assert task.labels == ("unacceptable", "acceptable")
    labels = [x.label for x in task.get_examples("dev")]
    assert labels == ["unacceptable", "acceptable", "acceptable"]
    assert [x.label for x in task.get_examples("test")] == [None] * 3
    assert task.existing_splits(["test"]) == ["test"]
    splits = ("dev=train[:1]", "train=train[1:]")
    other = _task(data_dir, "own", "glue/cola", **leaves, tfds_splits=splits)
    assert [x.text_a for x in other.get_examples("dev")] == ["b"]
    assert len(other.get_examples("train")) == 2


def test_a_test_file_takes_precedence_over_tfds(data_dir, tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text('{"sentence": "of a file"}\n', "utf-8")
    leaves = {"task_kind": "classification", "text_column": "sentence"}
    task = _task(data_dir, "own", "glue/cola", test_file=str(path), **leaves)
    assert [x.text_a for x in task.get_examples("test")] == ["of a file"]
    assert len(task.get_examples("dev")) == 3


def test_a_builtin_task_beside_a_custom_one_reads_its_files(data_dir):
    leaves = {"task_kind": "classification", "tfds_name": "glue/cola"}
    config = tiny.config(
        task_names=("own", "sst"), tfds_data_dir=str(data_dir), **leaves
    )
    tokenizer = TextTokenizer(tiny.VOCABULARY)
    custom, builtin = (
        task_builder.get_task(config, tokenizer, longest=32, name=name)
        for name in config.task.task_names
    )
    assert custom.source("dev").path == data_dir / "glue/cola/1.0.0"
    assert builtin.source("dev").path.name == "dev.tsv"


def test_values_and_lists_are_read(data_dir):
    leaves = {"text_column": "deep.text", "label_column": "stars"}
    task = _task(data_dir, "own", "mine", task_kind="regression", **leaves)
    examples = task.get_examples("train")
    assert [(x.text_a, x.label) for x in examples] == [
        ("good", 1.5),
        ("bad", 4),
    ]
    names = {"words_column": "tokens", "tags_column": "ner"}
    task = _task(data_dir, "own", "mine", task_kind="tagging", **names)
    first, _ = task.get_examples("train")
    assert first.words == ("a", "film") and first.tags == ("O", "S-X")
    assert "B-Y" in task.labels  # though no row has it
    with pytest.raises(UserError, match="own must have dev rows.*tfds_splits"):
        task.get_examples("dev")


@pytest.mark.parametrize(
    ("name", "tfds_name", "leaves", "problem"),
    [
        ("cola", "glue/colla", {}, "prepared.*build glue/colla --data_dir="),
        ("cola", "mine", {}, "`sentence` must be a feature.*'stars'"),
        ("cola", "glue/cola", {"tfds_splits": ("train=fit",)}, "split.*'fit'"),
        ("chunk", "mine", {}, "`tfds_name` must be used.*chunk"),
        ("own", "mine", {"task_kind": "regression"}, "`text` must be a feat"),
    ],
)
def test_missing_datasets_features_and_splits_are_refused(
    data_dir, name, tfds_name, leaves, problem
):
    with pytest.raises(ValueError):
        _task(data_dir, name, tfds_name, **leaves).get_examples("train")


def test_a_bad_example_is_named_by_its_number(data_dir):
    leaves = {"task_kind": "classification", "text_column": "sentence"}
    labels = ("acceptable", "wrong")
    task = _task(data_dir, "own", "glue/cola", **leaves, labels=labels)
    with pytest.raises(UserError, match="1.0.0, train, example 1: A label"):
        task.get_examples("train")
