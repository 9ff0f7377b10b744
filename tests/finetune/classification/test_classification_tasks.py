import functools

import pytest
import tiny_finetuning as tiny

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
