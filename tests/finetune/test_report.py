import types

import numpy as np
import pytest

from electra_tf.finetune import report
from electra_tf.finetune.experiment import Split, TaskData


def _results(*values):
    return [
        {
            "trial": i + 1,
            "restarts": i,
            "directory": f"m_{i + 1}",
            "collapsed": i == 1,
            "metrics": {
                "dev_matched": {"accuracy": value, "loss": 1 / value},
                "dev_mismatched": {"accuracy": value + 1},
            },
        }
        for i, value in enumerate(values)
    ]


def test_statistics_over_trials():
    values = [70.0, 60.0, 80.0, 66.0]
    summary = report.summarize(_results(*values))
    assert summary["dev_matched"]["accuracy"] == {
        "median": pytest.approx(68.0),
        "mean": pytest.approx(69.0),
        "std": pytest.approx(np.sqrt((1 + 81 + 121 + 9) / 3)),
        "best": 80.0,
    }
    assert summary["dev_matched"]["loss"]["best"] == pytest.approx(1 / 80)
    assert report.summarize(_results(1.0))["dev_matched"]["loss"]["std"] == 0


def test_each_of_several_tasks_has_its_table_and_all_have_their_mean():
    metrics = {
        "mnli_dev_matched": {"accuracy": 70.0},
        "sst_dev": {"accuracy": 90.0, "loss": 0.25},
        "sst_test": {"accuracy": 88.0},
        "all": {"mean": 80.0},
    }
    results = [{"trial": 1, "restarts": 0, "metrics": metrics}]
    text = report.tables(("mnli", "sst"), results)
    tables = [part.splitlines() for part in text.split("\n\n")]
    heads = [
        ["mnli,", "trial", "1", "matched"],
        ["sst,", "trial", "1", "dev", "test"],
        ["all,", "trial", "1", "dev"],
    ]
    assert [lines[0].split() for lines in tables] == heads
    rows = [[line.split() for line in lines[1:]] for lines in tables]
    assert rows == [
        [["accuracy", "70.00"]],
        [["accuracy", "90.00", "88.00"], ["loss", "0.25"]],
        [["mean", "80.00"]],
    ]


def test_one_trial_has_a_short_table_beside_the_majority():
    (result,) = _results(70.0)
    metrics = {"dev": {"accuracy": 70.0, "mcc": 1.5, "loss": 0.5}}
    metrics["test"] = {"accuracy": 60.0, "mcc": -2.0, "loss": 0.75}
    majority = {"dev": {"accuracy": 50.0, "mcc": 0.0}}
    majority["test"] = {"accuracy": 40.0, "mcc": 0.0}
    one = {**result, "metrics": metrics, "restarts": 1}
    text = report.table("own", [one], majority=majority)
    lines = text.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["own,", "trial", "1", "dev", "majority", "test", "majority"],
        ["accuracy", "70.00", "50.00", "60.00", "40.00"],
        ["mcc", "1.50", "0.00", "-2.00", "0.00"],
        ["loss", "0.50", "0.75"],
    ]
    assert lines[3].index("0.75") == lines[1].index("60.00") + 1
    assert lines[4] == "restarted 1x, now m_1"
    assert max(map(len, lines)) <= 79


def test_majority_and_ensemble_stand_below_the_statistics():
    majority = {"dev_matched": {"accuracy": 35.0}}
    ensemble = {
        "dev_matched": {"accuracy": 81.0},
        "dev_mismatched": {"accuracy": 82.0},
    }
    results = _results(70.0, 60.0)
    text = report.table("mnli", results, ensemble, majority=majority)
    lines = text.splitlines()
    assert lines[-2].split() == ["majority", "35.00"]
    assert lines[-1].split() == ["ensemble", "81.00", "82.00"]  # has no loss
    assert lines[-1].index("82") == lines[3].index("66")
    both = {"mnli_dev_matched": {"accuracy": 35.0}, "sst_dev": {"mcc": 0.0}}
    metrics = {"mnli_dev_matched": {"accuracy": 70.0}, "sst_dev": {"mcc": 9.0}}
    results = [{"trial": i, "restarts": 0, "metrics": metrics} for i in (1, 2)]
    text = report.tables(("mnli", "sst"), results, majority=both)
    mnli, sst, _ = text.split("\n\n")
    assert mnli.splitlines()[-1].split() == ["majority", "35.00"]
    assert sst.splitlines()[-1].split() == ["majority", "0.00"]


def test_the_confusion_table_has_counts_recall_and_precision():
    pairs = ["aa"] * 1500 + ["ab"] * 500 + ["ba"] + ["bb"] * 3
    answers = [{"label": x, "prediction": y} for x, y in pairs]
    assert report.confusion_table(("a", "b", "c"), answers) == (
        "gold            a      b  c  recall\n"
        "a           1,500    500  0  75.0 %\n"
        "b               1      3  0  75.0 %\n"
        "c               0      0  0       -\n"
        "precision  99.9 %  0.6 %  -\n"
    )


def _data(labels=(), **dev):
    scorer = types.SimpleNamespace(main_metric="f1")
    task = types.SimpleNamespace(
        name="t", labels=labels, get_scorer=lambda: scorer
    )
    splits = [Split(task, name, name, (), None) for name in dev]
    return TaskData(task, None, splits)


def test_of_equal_trials_the_first_is_the_best():
    results = [
        {"trial": i, "metrics": {"dev": {"f1": value}}}
        for i, value in enumerate((1.0, 3.0, 3.0), 1)
    ]
    assert report.best_trial(_data(dev=1), results) == 2
    assert report.best_trial(_data(other=1), results) is None
    assert report.best_trial(_data(), results) is None
