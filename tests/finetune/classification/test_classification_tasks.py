import functools
import json

import pytest
import tiny_finetuning as tiny

from electra_tf.util.errors import UserError

CSV = "text,label\ngood,pos\nbad,neg\nfilm,pos\n"


_task = functools.partial(tiny.task, "classification")


def _write(tmp_path, text, name="train.csv"):
    return tiny.write(tmp_path, "own", name, text)


def test_labels_are_those_of_the_training_rows_sorted(tmp_path):
    _write(tmp_path, CSV)
    _write(tmp_path, CSV.replace("neg", "pos"), "dev.csv")
    task = _task(tmp_path)
    assert task.labels == ("neg", "pos")
    examples = task.get_examples("train")
    rows = list(task.featurize(examples, is_training=True))
    assert [row["label_ids"] for row in rows] == [1, 0, 1]
    assert len(task.get_examples("dev")) == 3
    _write(tmp_path, "text,label\na,10\nb,9\n")
    assert _task(tmp_path).labels == ("9", "10")
    assert _task(tmp_path, labels=("10", "9")).labels == ("10", "9")


def test_files_can_be_anywhere_and_columns_have_any_name(tmp_path):
    rows = [{"r": {"body": "good"}, "stars": 5, "by": "a"}]
    rows.append({"r": {"body": "bad"}, "stars": 1, "by": "it"})
    path = _write(tmp_path, rows, "reviews.jsonl")
    leaves = {
        "train_file": str(path),
        "text_column": "r.body",
        "text_b_column": "by",
        "label_column": "stars",
    }
    task = _task(tmp_path, **leaves)
    assert task.input_names == ("r.body", "by")
    first, second = task.get_examples("train")
    assert (first.text_a, first.text_b, first.label) == ("good", "a", "5")
    assert second.text_b == "it"
    pairs = list(task.featurize([first], is_training=True))
    assert len(pairs) == 1 and pairs[0]["segment_ids"].tolist() == [
        *[0] * 3,
        *[1] * 2,
    ]
    both = _task(tmp_path, **leaves, is_unordered_pair=True)
    assert len(list(both.featurize([first], is_training=True))) == 2
    assert len(list(both.featurize([first], is_training=False))) == 1


def test_a_test_file_needs_no_labels(tmp_path, capsys):
    _write(tmp_path, CSV)
    _write(tmp_path, "text,label\nfilm,?\nbad,pos\n", "test.csv")
    labels = [x.label for x in _task(tmp_path).get_examples("test")]
    assert labels == [None, "pos"]
    stderr = capsys.readouterr().err
    assert "1 of 2 rows have no label of the task" in stderr
    path = _write(tmp_path, "id\ttext\n7\tgood\n", "other.tsv")
    task = _task(tmp_path, test_file=str(path))
    (example,) = task.get_examples("test")
    assert example.text_a == "good" and example.label is None
    answers = [{"eid": 0, "prediction": 'a "b"'}]
    table = 'row,prediction\n0,"a ""b"""\n'
    assert task.output_files("test", answers) == {"own_test.csv": table}
    assert task.output_files("dev", answers) == {}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("film,poss", "'poss'. Did you mean pos"),
        ("film,good,pos", "2 columns. Received: 3"),
        (" ,pos", "'text' must be a text that is not empty"),
        ("film,", "'label' must hold a label"),
    ],
)
def test_a_bad_dev_row_is_an_error_with_its_line_or_is_skipped(
    row, problem, tmp_path
):
    _write(tmp_path, CSV)
    path = _write(tmp_path, f'text,label\n"a\nb",neg\n{row}\n', "dev.csv")
    with pytest.raises(UserError, match=r"dev\.csv, line 4"):
        _task(tmp_path).get_examples("dev")
    lenient = _task(tmp_path, skip_bad_rows=True)
    assert [x.eid for x in lenient.get_examples("dev")] == [0]
    assert lenient.bad_rows.counts == {str(path): 1}


@pytest.mark.parametrize(
    ("text", "leaves", "problem"),
    [
        ("text,label\na,x\nb,x\n", {}, "at least two labels. Received: x in"),
        (
            "text,label\na,x\nb,y\nc,z\n",
            {"main_metric": "f1"},
            "Received: x, y, z .*--main_metric=macro_f1",
        ),
        (
            "text,label\na,3\nb,3\n",
            {"task_kind": "regression"},
            "two different values. Received: 3 in",
        ),
    ],
)
def test_training_labels_must_differ_and_suit_the_main_metric(
    text, leaves, problem, tmp_path
):
    _write(tmp_path, text)
    task = _task(tmp_path, **leaves)
    with pytest.raises(ValueError):
        task.featurize(task.get_examples("train"), is_training=True)
        task.describe()


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
    with pytest.raises(UserError, match=r"dev\.csv, line 2: .*-1 to 4"):
        narrow.get_examples("dev")
    for value in ("nan", "inf", "3;5", "much"):
        _write(tmp_path, f"text,label\na,1\nb,{value}\n")
        with pytest.raises(UserError, match=r"train\.csv, line 3: "):
            _task(tmp_path, task_kind="regression").get_examples("train")


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


def test_a_trained_model_does_without_files(tmp_path):
    _write(tmp_path, CSV)
    described = json.loads(json.dumps(_task(tmp_path).describe()))
    task = _task("nowhere", metadata=described, train_file="nowhere.csv")
    assert task.labels == ("neg", "pos") and task.input_names == ("text",)


@pytest.mark.parametrize(
    ("name", "leaves", "problem"),
    [
        ("colla", {}, "cola.*mean cola.*custom.*--task_kind to clas"),
        (
            "cola",
            {"task_kind": "classification"},
            "name of a built-in one.*cola",
        ),
        ("own", {"task_names": ("a/b",)}, "must begin with a letter.*'a/b'"),
        ("own", {"task_names": ("a", "b")}, "At most one .* a, b"),
        ("cola", {"test_file": "x"}, "`test_file` is for custom tasks"),
    ],
)
def test_an_invalid_task_name_is_refused_with_the_way_out(
    name, leaves, problem
):
    kind = {"task_kind": "classification"} if name == "own" else {}
    with pytest.raises(ValueError):
        tiny.task(name, **kind, **leaves)
