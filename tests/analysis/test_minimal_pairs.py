import numpy as np
import pytest
from tiny_analysis import WordScorer, config, draw, write_lines

from electra_tf.analysis import minimal_pairs
from electra_tf.analysis.minimal_pairs import MinimalPair
from electra_tf.analysis.scorer import Scorer

WORDS = {"a": -1.0, "b": -2.0, "c": -4.0}
PAIRS = [
    ("a", "b", "p1", "x"),  # won by total, won by mean
    ("a a a", "b", "p1", "x"),  # lost by total, won by mean
    ("b b", "c", "p2", "x"),  # a tie by total, won by mean
    ("c", "c a", None, "y"),  # won by total, lost by mean
]
FIELDS = ("sentence_good", "sentence_bad", "UID", "linguistics_term")


def test_a_tie_counts_half_and_paradigms_and_phenomena_count_alike(
    tmp_path, monkeypatch
):
    rows = [dict(zip(FIELDS, x, strict=True)) for x in PAIRS]
    write_lines(tmp_path / "p3.x.jsonl", rows)
    monkeypatch.setattr(Scorer, "from_config", lambda _: WordScorer(mlm=WORDS))
    report = minimal_pairs.run(config(tmp_path))
    by_total = report.results["scores"]["mlm, total"]
    values = {name: x.value for name, x in by_total["paradigms"].items()}
    assert values == {"p1": 50, "p2": 50, "p3.x": 100}
    assert by_total["phenomena"] == {"x": 50, "y": 100}
    assert by_total["whole"].value == pytest.approx((50 + 50 + 100) / 3)
    assert by_total["num_ties"] == 1
    by_mean = report.results["scores"]["mlm, mean"]
    assert by_mean["whole"].value == pytest.approx((100 + 100 + 0) / 3)
    assert by_mean["num_ties"] == 0
    draw(report)


def test_the_whole_resamples_paradigms_and_a_paradigm_its_pairs():
    pairs = [MinimalPair("a", "b", f"p{n % 2}", "x") for n in range(400)]
    good = np.array([n % 2 * (n % 4 == 1) for n in range(400)])
    bad = np.full(400, 0.5)  # p0 wins no pair, p1 half of them
    found = minimal_pairs.measure(config(num_resamples=2000), pairs, good, bad)
    # A sample may draw one of the two paradigms twice.
    assert found["whole"] == (25, 0, 50)
    half = 100 * 1.96 * np.sqrt(0.25 / 200) / 2
    assert found["phenomena"] == {"x": 25}
    high = found["paradigms"]["p1"].high
    assert high - 50 == pytest.approx(2 * half, rel=0.1)
    alone = minimal_pairs.measure(config(), pairs[1::2], good[1::2], bad[1::2])
    assert alone["whole"] == alone["paradigms"]["p1"]
