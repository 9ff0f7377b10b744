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


def test_a_table_has_trials_statistics_majority_and_ensemble():
    majority = {"dev_matched": {"accuracy": 35.0}}
    ensemble = {"dev_matched": {"accuracy": 81.0}}
    others = {"majority": majority, "ensemble": ensemble}
    table = report.table("mnli", _results(50.0, 60.0), others)
    header, matched, loss, mismatched, *notes = table.splitlines()
    heads = "mnli trial 1 trial 2 median mean std best majority ensemble"
    assert header.split() == heads.split()
    values = "50.00 60.00 55.00 55.00 7.07 60.00 35.00 81.00"
    assert matched.split() == ["dev_matched", "accuracy", *values.split()]
    assert loss.split()[:4] == ["dev_matched", "loss", "0.02", "0.02"]
    assert mismatched.split()[2:] == [
        *("51.00", "61.00", "56.00", "56.00", "7.07", "61.00")
    ]
    assert mismatched.index("51") == matched.index("50")
    assert [("m_2" in note, "failed" in note) for note in notes] == [
        *((True, False), (False, True))
    ]
    one = report.table("mnli", _results(50.0), {"majority": majority})
    assert one.splitlines()[0].split() == "mnli trial 1 majority".split()


def test_the_confusion_table_counts_pairs_of_gold_and_prediction():
    pairs = ["aa"] * 1500 + ["ab"] * 500 + ["ba"] + ["bb"] * 3
    answers = [{"label": x, "prediction": y} for x, y in pairs]
    assert report.confusion_table(("a", "b", "c"), answers) == (
        "gold      a    b  c\n"
        "a     1,500  500  0\n"
        "b         1    3  0\n"
        "c         0    0  0\n"
    )
