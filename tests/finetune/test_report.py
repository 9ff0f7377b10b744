import numpy as np
import pytest

from electra_tf.finetune import report


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
        ["mnli", "matched", "accuracy"],
        ["sst", "accuracy", "loss", "test", "accuracy"],
        ["all", "mean"],
    ]
    assert [lines[0].split() for lines in tables] == heads
    rows = [lines[1].split()[2:] for lines in tables]
    assert rows == [["70.00"], ["90.00", "0.25", "88.00"], ["80.00"]]


def test_the_table_names_every_trial_and_what_became_of_it():
    lines = report.table("mnli", _results(70.0, 60.0)).splitlines()
    assert lines[0].split() == [
        *("mnli", "matched", "accuracy", "matched", "loss"),
        *("mismatched", "accuracy"),
    ]
    assert lines[1].split() == ["trial", "1", "70.00", "0.01", "71.00"]
    assert lines[2].endswith(
        "begun anew 1x, now m_2, failed: answers all alike"
    )
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
