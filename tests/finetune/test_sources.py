"""Tasks read from files, and from prepared TensorFlow Datasets."""

import functools

import prepared_datasets
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tiny_finetuning as tiny
from tensorflow_datasets.core import constants

from electra_tf.util.errors import UserError

CSV = "text,label\ngood,pos\nbad,neg\nfilm,pos\n"


_task = functools.partial(tiny.task, "classification")


def _write(tmp_path, text, name="train.csv"):
    return tiny.write(tmp_path, "own", name, text)


def test_labels_are_those_of_the_training_rows_sorted(tmp_path):
    _write(tmp_path, CSV)
    task = _task(tmp_path)
    assert task.labels == ("neg", "pos")
    rows = task.featurize(task.get_examples("train"), is_training=True)
    assert [row["label_ids"] for row in rows] == [1, 0, 1]
    _write(tmp_path, "text,label\na,10\nb,9\n")
    assert _task(tmp_path).labels == ("9", "10")
    assert _task(tmp_path, labels=("10", "9")).labels == ("10", "9")


def test_files_can_be_anywhere_and_columns_have_any_name(tmp_path):
    rows = [{"r": {"body": "good"}, "stars": 5, "by": "a"}]
    rows.append({"r": {"body": "bad"}, "stars": 1, "by": "it"})
    path = _write(tmp_path, rows, "reviews.jsonl")
    task = _task(
        train_file=str(path),
        text_column="r.body",
        text_b_column="by",
        label_column="stars",
    )
    assert task.input_names == ("r.body", "by")
    first, second = task.get_examples("train")
    assert (first.text_a, first.text_b, first.label) == ("good", "a", "5")
    assert second.text_b == "it"


def test_a_test_file_needs_no_labels(tmp_path):
    _write(tmp_path, CSV)
    _write(tmp_path, "text,label\nfilm,?\nbad,pos\n", "test.csv")
    labels = [x.label for x in _task(tmp_path).get_examples("test")]
    assert labels == [None, "pos"]
    path = _write(tmp_path, "id\ttext\n7\tgood\n", "other.tsv")
    task = _task(tmp_path, test_file=str(path))
    (example,) = task.get_examples("test")
    assert example.text_a == "good" and example.label is None
    answers = [{"eid": 0, "prediction": 'a "b"'}]
    table = 'row,prediction\n0,"a ""b"""\n'
    assert task.output_files("test", answers) == {"own_test.csv": table}
    assert task.output_files("dev", answers) == {}


def test_regression_targets_are_scaled_to_0_to_1(tmp_path):
    _write(tmp_path, "text,label\na,-1\nb,3\nc,1e0\n")
    _write(tmp_path, "text,label\na,5\n", "dev.csv")
    task = _task(tmp_path, task_kind="regression")
    examples = task.get_examples("train")
    rows = list(task.featurize(examples, is_training=True))
    assert [row["targets"] for row in rows] == [0, 1, 0.5]
    assert task.get_examples("dev")[0].label == 5
    assert task.describe()["value_range"] == (-1, 3)
    narrow = _task(tmp_path, task_kind="regression", value_range=(-1.0, 4.0))
    assert narrow.value_range == (-1, 4)
    with pytest.raises(UserError, match=r"dev\.csv, line 2: "):
        narrow.get_examples("dev")


def test_a_text_of_held_out_pairs_is_in_no_training_pair(tmp_path):
    rows = [f"a{i // 2},b{i},{i % 2}\n" for i in range(200)]
    _write(tmp_path, "a,b,label\n" + "".join(rows))
    columns = {"text_column": "a", "text_b_column": "b"}
    task = _task(tmp_path, dev_fraction=0.3, **columns)
    train, dev = (
        {x.text_a for x in task.get_examples(split)}
        for split in ("train", "dev")
    )
    assert not train & dev and len(train) + len(dev) == 100
    assert 10 < len(dev) < 50


GOOD = {"words": ["good", "film"], "tags": ["B-X", "I-X"]}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("sst", "A film\t0", "A film"),
        ("sst", "A film\t0", "A film\t1\t"),
        ("sst", "A film\t0", "A film\t2"),
        ("sst", "A film\t0", "\t"),
        ("tagging", GOOD, {"words": ["a"], "tags": ["B-Z"]}),
        ("tagging", GOOD, {"words": ["a"], "tags": ["O", "O"]}),
        ("tagging", GOOD, {"word": ["a"], "tags": ["O"]}),
    ],
)
def test_a_bad_row_is_an_error_with_its_line_or_is_skipped(
    name, good, bad, tmp_path
):
    make = functools.partial(tiny.task, name, tmp_path)
    content, file = [good, bad], "train.jsonl"
    if name == "sst":
        content, file = f"sentence\tlabel\n{good}\n{bad}\n", "train.tsv"
    else:
        make = functools.partial(make, labels=("X",))
    path = tiny.write(tmp_path, make().name, file, content)
    line = 3 if name == "sst" else 2
    with pytest.raises(UserError, match=f"{file}, line {line}"):
        make().get_examples("train")
    lenient = make(skip_bad_rows=True)
    assert [x.eid for x in lenient.get_examples("train")] == [0]
    assert lenient.bad_rows.counts == {str(path): 1}


@pytest.mark.parametrize(
    ("kind", "labels", "main_metric"),
    [
        ("classification", "xx", ""),
        ("classification", "xyz", "f1"),
        ("regression", "33", ""),
        ("regression", ["1", "much"], ""),
        ("tagging", "x", ""),
        ("tagging", "xy", "f1"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(
    kind, labels, main_metric, tmp_path
):
    rows = [
        {"text": "a", "label": x, "words": ["a"], "tags": [x]} for x in labels
    ]
    _write(tmp_path, rows, "train.jsonl")
    task = tiny.task(kind, tmp_path, main_metric=main_metric)
    with pytest.raises(UserError):
        list(task.featurize(task.get_examples("train"), is_training=True))


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
