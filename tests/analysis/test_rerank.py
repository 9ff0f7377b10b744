import numpy as np
import pytest
from tiny_analysis import WordScorer, config, draw, write_lines

from electra_tf.analysis import rerank
from electra_tf.analysis.rerank import NBest
from electra_tf.analysis.scorer import Scorer
from electra_tf.util.errors import UserError

WORDS = {"a": -1.0, "b": -2.0, "c": -5.0}
SCORER = WordScorer(mlm=WORDS)
# The model's best: by total "a", "b a", "c c"; by mean "a", "a b a", "c c".
TEST = [
    NBest(("b", "a"), "a", (-0.1, -0.2)),
    NBest(("b c", "b a", "a b a"), "b a", (-0.1, -0.6, -0.2)),
    NBest(("c c",), "c b", (-1.0,)),
]


def test_error_rates_are_errors_over_words():
    """By hand: 5 words; errors 1 + 1 + 1 of the first hypotheses."""
    report = rerank.rerank(config(), SCORER, {"test": TEST})
    systems = report.results["systems"]
    assert {k: x["error_rate"].value for k, x in systems.items()} == (
        pytest.approx(
            {
                "first hypothesis": 100 * 3 / 5,
                "recogniser": 100 * 3 / 5,
                "mlm, total": 100 * 1 / 5,
                "mlm, mean": 100 * 2 / 5,  # the longer hypothesis wins by mean
                "oracle": 100 * 1 / 5,
            }
        )
    )
    assert systems["mlm, total"]["difference"].value == pytest.approx(-40)
    assert systems["first hypothesis"]["difference"] == (0, 0, 0)
    assert report.results["chosen_on_dev"] is None
    draw(report)


def _random_lists(seed, count=40):
    random = np.random.default_rng(seed)
    lists = []
    for _ in range(count):
        size = random.integers(1, 5)
        texts = [
            " ".join(random.choice(list("abc"), size=random.integers(1, 5)))
            for _ in range(size + 1)
        ]
        scores = tuple(-random.random(size).round(3))
        lists.append(NBest(tuple(texts[1:]), texts[0], scores))
    return lists


def test_the_weight_is_the_best_on_dev_and_the_lowest_of_equal_ones():
    dev = _random_lists(1)
    scored = rerank.score_lists(dev, SCORER, ("mlm",))

    def rate(weight):
        errors = 0
        for number, one in enumerate(dev):
            combined = [
                score + weight * sum(WORDS[word] for word in text.split())
                for score, text in zip(one.scores, one.hypotheses, strict=True)
            ]
            chosen = combined.index(max(combined))
            errors += scored.num_errors[number, chosen]
        return errors

    rates = [rate(weight) for weight in rerank.WEIGHTS]
    expected = rerank.WEIGHTS[rates.index(min(rates))]
    assert min(rates) < rates[0]  # the model helps
    assert rerank.tune(scored, "mlm, total") == expected


def test_with_dev_lists_both_scores_are_joined_by_the_tuned_weight():
    lists = {"test": _random_lists(2), "dev": _random_lists(1)}
    results = rerank.rerank(config(), SCORER, lists).results
    systems = results["systems"]
    dev = rerank.score_lists(lists["dev"], SCORER, ("mlm",))
    system = systems["mlm, total + recogniser"]
    assert system["weight"] == rerank.tune(dev, "mlm, total")
    expected = dev.error_rate(dev.mixed("mlm, total", system["weight"]))
    assert system["dev_error_rate"] == expected
    rates = {k: x["dev_error_rate"] for k, x in systems.items()}
    assert min(rates, key=rates.get) == "oracle"
    del rates["oracle"]
    assert results["chosen_on_dev"] == min(rates, key=rates.get)


def test_both_splits_or_neither_have_recogniser_scores(tmp_path, monkeypatch):
    monkeypatch.setattr(Scorer, "from_config", lambda _: SCORER)
    rows = [x._asdict() for x in TEST]
    test = write_lines(tmp_path / "test.jsonl", rows)
    report = rerank.run(config(test))
    assert report.results["num_test_lists"] == 3
    plain = [x | {"scores": []} for x in rows]
    dev = write_lines(tmp_path / "dev.jsonl", plain)
    with pytest.raises(UserError):
        rerank.run(config(test, dev=(dev,)))
