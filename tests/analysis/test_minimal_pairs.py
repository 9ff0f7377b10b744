import math

import numpy as np
import pytest
from analysis_configs import config, write_lines
from word_scorer import WordScorer

from electra_tf.analysis import minimal_pairs
from electra_tf.analysis.minimal_pairs import MinimalPair
from electra_tf.analysis.report import wilson
from electra_tf.analysis.scorer import Scorer

WORDS = {"a": -1.0, "b": -2.0, "c": -4.0}
PAIRS = [
    MinimalPair("a", "b", "p1", "x"),  # won by total, won by mean
    MinimalPair("a a a", "b", "p1", "x"),  # lost by total, won by mean
    MinimalPair("b b", "c", "p2", "x"),  # a tie by total, won by mean
    MinimalPair("c", "c a", "p3", "y"),  # won by total, lost by mean
]


@pytest.fixture(scope="module")
def report():
    return minimal_pairs.minimal_pairs(config(), WordScorer(mlm=WORDS), PAIRS)


def test_a_tie_counts_half_and_paradigms_and_phenomena_count_alike(report):
    found = report.results["scores"]["mlm, total"]
    values = {name: x.value for name, x in found.paradigms.items()}
    assert values == {"p1": 50, "p2": 50, "p3": 100}
    values = {name: x.value for name, x in found.phenomena.items()}
    assert values == {"x": 50, "y": 100}
    assert found.whole.value == pytest.approx((50 + 50 + 100) / 3)
    assert found.num_ties == 1
    by_mean = report.results["scores"]["mlm, mean"]
    assert by_mean.whole.value == pytest.approx((100 + 100 + 0) / 3)
    assert by_mean.num_ties == 0
    expected = {"accuracy (%)": pytest.approx(200 / 3)}  # by the total
    assert report.headline == expected


def test_the_whole_resamples_paradigms_and_a_paradigm_its_pairs():
    pairs = [MinimalPair("a", "b", f"p{n % 2}", "x") for n in range(400)]
    good = np.array([n % 2 * (n % 4 == 1) for n in range(400)])
    bad = np.full(400, 0.5)  # p0 wins no pair, p1 half of them
    found = minimal_pairs.measure(
        config(num_resamples=2000), pairs, good=good, bad=bad
    )
    assert found.whole.value == 25
    # A sample may draw one of the two paradigms twice.
    assert (found.whole.low, found.whole.high) == (0, 50)
    half = 100 * 1.96 * np.sqrt(0.25 / 200) / 2
    assert found.phenomena["x"].high - 25 == pytest.approx(half, rel=0.15)
    assert found.paradigms["p1"].high - 50 == pytest.approx(2 * half, rel=0.1)
    alone = minimal_pairs.measure(
        config(), pairs[1::2], good=good[1::2], bad=bad[1::2]
    )
    assert alone.whole == alone.phenomena["x"] == alone.paradigms["p1"]
    assert alone.whole.low < 50 < alone.whole.high


def test_pairs_are_read_with_their_names_or_those_of_files(
    tmp_path, monkeypatch
):
    pair = {"sentence_good": "a", "sentence_bad": "b"}
    named = pair | {"UID": "u", "linguistics_term": "t", "pairID": "0"}
    write_lines(tmp_path / "f.x.jsonl", [pair, named])
    expected = [
        MinimalPair("a", "b", "f.x", "f.x"),
        MinimalPair("a", "b", "u", "t"),
    ]
    assert minimal_pairs.read(config(tmp_path)) == expected
    monkeypatch.setattr(Scorer, "from_config", lambda _: WordScorer(mlm=WORDS))
    report = minimal_pairs.run(config(tmp_path))
    assert report.headline == {"accuracy (%)": 100}


def test_files_of_one_name_are_two_paradigms(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        pair = {"sentence_good": "a", "sentence_bad": "b"}
        write_lines(tmp_path / name / "f.jsonl", [pair])
    found = [x.paradigm for x in minimal_pairs.read(config(tmp_path))]
    assert found == ["f", f"{tmp_path}/y/f.jsonl"]


def test_the_mean_of_shares_is_near_the_normal_interval():
    counts = ((400, 1000), (300, 500), (900, 2000))
    found = minimal_pairs.mean([wilson(*pair) for pair in counts])
    variances = [wins * (trials - wins) / trials**3 for wins, trials in counts]
    half = 1.96 * math.sqrt(sum(variances)) / 3
    assert found.value == pytest.approx((0.4 + 0.6 + 0.45) / 3)
    assert found.high - found.value == pytest.approx(half, rel=0.03)
    assert found.value - found.low == pytest.approx(half, rel=0.03)
