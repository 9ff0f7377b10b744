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


def test_a_table_has_trials_and_statistics():
    table = report.table("mnli", _results(50.0, 60.0))
    header, matched, loss, mismatched, *notes = table.splitlines()
    heads = "mnli trial 1 trial 2 median mean std best"
    assert header.split() == heads.split()
    values = "50.00 60.00 55.00 55.00 7.07 60.00"
    assert matched.split() == ["dev_matched", "accuracy", *values.split()]
    assert loss.split()[:4] == ["dev_matched", "loss", "0.02", "0.02"]
    assert mismatched.split()[2:] == [
        *("51.00", "61.00", "56.00", "56.00", "7.07", "61.00")
    ]
    assert mismatched.index("51") == matched.index("50")
    assert [("m_2" in note, "failed" in note) for note in notes] == [
        *((True, False), (False, True))
    ]
    one = report.table("mnli", _results(50.0))
    assert one.splitlines()[0].split() == "mnli trial 1".split()
