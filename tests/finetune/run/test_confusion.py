import types

import numpy as np
import pytest

from electra_tf.finetune.run import confusion


def _answers(*pairs):
    return [{"label": x, "prediction": y} for x, y in pairs]


def test_rows_are_right_labels_and_columns_predicted_ones():
    answers = _answers("ab", "ab", "ac", "bb", "ca")
    counts = confusion.count("abc", answers)
    np.testing.assert_array_equal(counts, [[0, 2, 1], [0, 1, 0], [1, 0, 0]])


def test_the_table_has_counts_and_the_shares_that_are_found():
    counts = np.array([[1500, 500, 0], [1, 3, 0], [0, 0, 0]])
    shown = confusion.Confusion("t", "dev", 2, ("a", "bb", "c"), counts)
    assert confusion.table(shown) == (
        "t dev, trial 2: right labels down, predicted ones across\n"
        "right           a     bb  c  recall\n"
        "a           1,500    500  0  75.0 %\n"
        "bb              1      3  0  75.0 %\n"
        "c               0      0  0       -\n"
        "precision  99.9 %  0.6 %  -\n"
    )


def test_of_equal_trials_the_first_is_the_best():
    results = [
        {"trial": i, "metrics": {"dev": {"f1": value}}}
        for i, value in enumerate((1.0, 3.0, 3.0), 1)
    ]
    assert confusion.best_trial("f1", "dev", results)["trial"] == 2


@pytest.mark.parametrize(
    ("size", "has_table", "is_drawn"),
    [(12, True, True), (30, False, True), (41, False, False)],
)
def test_more_labels_than_a_page_has_room_for_are_drawn_alone(
    size, has_table, is_drawn, tmp_path, monkeypatch
):
    labels = tuple(f"label {i}" for i in range(size))
    answers = [{"label": x, "prediction": x} for x in labels]
    monkeypatch.setattr(
        confusion.predictions, "read_answers", lambda *_: answers
    )
    scorer = types.SimpleNamespace(main_metric="accuracy")
    task = types.SimpleNamespace(
        name="t", labels=labels, get_scorer=lambda: scorer
    )
    experiment = types.SimpleNamespace(
        config=types.SimpleNamespace(
            results_dir=str(tmp_path), task=types.SimpleNamespace(task_name="t")
        ),
        dev_splits=lambda: [("dev", task, None)],
        tasks=[(task, None, {"dev": None}, {})],
    )
    results = [{"trial": 1, "metrics": {"dev": {"accuracy": 100.0}}}]
    drawn = confusion.write(experiment, results)
    assert [len(x.labels) for x in drawn] == [size] * is_drawn
    assert (tmp_path / "t_confusion.txt").exists() == has_table
