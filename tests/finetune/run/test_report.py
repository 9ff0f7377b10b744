import numpy as np
import pytest

from electra_tf.finetune.run import report


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


def test_the_majority_stands_below_the_statistics_of_several_trials():
    majority = {"dev_matched": {"accuracy": 35.0}}
    text = report.table("mnli", _results(70.0, 60.0), majority=majority)
    assert text.splitlines()[-1].split() == ["majority", "35.00"]
    both = {"mnli_dev_matched": {"accuracy": 35.0}, "sst_dev": {"mcc": 0.0}}
    metrics = {"mnli_dev_matched": {"accuracy": 70.0}, "sst_dev": {"mcc": 9.0}}
    results = [{"trial": i, "restarts": 0, "metrics": metrics} for i in (1, 2)]
    text = report.tables(("mnli", "sst"), results, majority=both)
    mnli, sst, _ = text.split("\n\n")
    assert mnli.splitlines()[-1].split() == ["majority", "35.00"]
    assert sst.splitlines()[-1].split() == ["majority", "0.00"]


def test_the_table_names_every_trial_and_what_became_of_it():
    lines = report.table("mnli", _results(70.0, 60.0)).splitlines()
    assert lines[0].split() == [
        *("mnli", "matched", "accuracy", "matched", "loss"),
        *("mismatched", "accuracy"),
    ]
    assert lines[1].split() == ["trial", "1", "70.00", "0.01", "71.00"]
    assert lines[2].endswith("restarted 1x, now m_2, failed: answers all alike")
    names = [line.split()[0] for line in lines[3:]]
    assert names == ["median", "mean", "std", "best"]
    assert lines[3].split()[1:] == ["65.00", "0.02", "66.00"]


def test_what_a_trial_lacks_is_left_empty():
    (first,) = _results(70.0)
    second = {**first, "trial": 2, "restarts": 0, "metrics": {}}
    ensemble = {"test": {"accuracy": 81.0}}
    for results in ([first, second], [second, first]):
        assert report.summarize(results) == report.summarize([first])
        lines = report.table("mnli", results, ensemble).splitlines()
        cells = [line.split()[2:] for line in lines[1:3]]
        assert cells[results.index(second)] == []
        assert lines[-1].split() == ["ensemble"]


def test_an_ensemble_stands_last_without_a_loss():
    ensemble = {
        "dev_matched": {"accuracy": 81.0},
        "dev_mismatched": {"accuracy": 82.0},
    }
    text = report.table("mnli", _results(70.0, 60.0), ensemble)
    *others, last = text.splitlines()
    assert last.split() == ["ensemble", "81.00", "82.00"]
    ends = [line.index(x) for line, x in ((last, "82"), (others[3], "66"))]
    assert ends[0] == ends[1]
