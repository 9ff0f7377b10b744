import json

import numpy as np
import pytest
from analysis_configs import config
from word_scorer import WordScorer

from electra_tf.analysis import rerank
from electra_tf.analysis.rerank import NBest
from electra_tf.analysis.scorer import Scorer
from electra_tf.util.errors import UserError

WORDS = {"a": -1.0, "b": -2.0, "c": -5.0}
# The model's best: by total "a", "b a", "c c"; by mean "a", "a b a", "c c".
TEST = [
    NBest(("b", "a"), "a", (-0.1, -0.2)),
    NBest(("b c", "b a", "a b a"), "b a", (-0.1, -0.6, -0.2)),
    NBest(("c c",), "c b", (-1.0,)),
]
CONFIG = config()


@pytest.fixture(scope="module")
def report():
    return rerank.rerank(CONFIG, WordScorer(mlm=WORDS), {"test": TEST})


def _systems(report):
    return {system.name: system for system in report.results["systems"]}


def test_error_rates_are_errors_over_words(report):
    """By hand: 5 words; errors 1 + 1 + 1 of the first hypotheses."""
    found = {k: v.error_rate.value for k, v in _systems(report).items()}
    assert found == pytest.approx(
        {
            "first hypothesis": 100 * 3 / 5,
            "recogniser": 100 * 3 / 5,
            "mlm, total": 100 * 1 / 5,
            "mlm, mean": 100 * 2 / 5,  # the longer hypothesis wins by mean
            "oracle": 100 * 1 / 5,
        }
    )
    differences = {k: v.difference for k, v in _systems(report).items()}
    assert differences["mlm, total"].value == pytest.approx(-40)
    assert differences["first hypothesis"] == (0, 0, 0)
    assert report.headline == {"WER, model alone (%)": pytest.approx(40)}


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
    dev, name = _random_lists(1), "mlm, total"
    found = rerank.arrays(dev, WordScorer(mlm=WORDS), ("mlm",))

    def rate(weight):
        errors = 0
        for number, one in enumerate(dev):
            combined = [
                score + weight * sum(WORDS[word] for word in text.split())
                for score, text in zip(one.scores, one.hypotheses, strict=True)
            ]
            chosen = combined.index(max(combined))
            errors += found.num_errors[number, chosen]
        return errors

    rates = [rate(weight) for weight in rerank.WEIGHTS]
    expected = rerank.WEIGHTS[rates.index(min(rates))]
    assert min(rates) < rates[0]  # the model helps
    assert rerank.tune(found, name) == expected


def test_with_dev_lists_both_scores_are_joined_by_the_tuned_weight():
    lists = {"test": _random_lists(2), "dev": _random_lists(1)}
    scorer = WordScorer(mlm=WORDS)
    report = rerank.rerank(CONFIG, scorer, lists)
    systems = _systems(report)
    dev = rerank.arrays(lists["dev"], scorer, ("mlm",))
    system = systems["mlm, total + recogniser"]
    assert system.weight == rerank.tune(dev, "mlm, total")
    expected = dev.error_rate(dev.mixed("mlm, total", system.weight))
    assert system.dev_error_rate == expected
    selectable = {
        k: x.dev_error_rate for k, x in systems.items() if k != "oracle"
    }
    chosen = min(selectable, key=selectable.get)
    assert report.results["chosen_on_dev"] == chosen
    value = report.headline["WER, chosen on dev (%)"]
    assert value == systems[chosen].error_rate.value
    best = systems["oracle"].error_rate.value
    assert all(x.error_rate.value >= best for x in systems.values())


def test_a_hypothesis_without_words_is_chosen_only_by_the_recogniser():
    lists = [NBest(("", "c"), "c", (-0.1, -0.2)), NBest(("", ""), "a", (0, 0))]
    found = rerank.arrays(lists, WordScorer(mlm=WORDS), ("mlm",))
    name = "mlm, total"
    assert [*found.model[name].argmax(1)] == [1, 0]
    assert [*found.mixed(name, 0.1).argmax(1)] == [1, 0]
    assert [*found.mixed(name, 0.0).argmax(1)] == [0, 0]


def _write(path, lists):
    rows = [
        {"hypotheses": x.hypotheses, "reference": x.reference}
        | ({"scores": x.scores} if x.scores else {})
        for x in lists
    ]
    path.write_text(json.dumps(rows), "utf-8")
    return (str(path),)


def test_dev_is_optional_and_checked_before_the_model_is_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(Scorer, "from_config", lambda _: WordScorer(mlm=WORDS))
    test = _write(tmp_path / "test.json", TEST)
    report = rerank.run(config(*test))
    assert report.results["num_test_lists"] == 3
    assert report.results["chosen_on_dev"] is None
    plain = [one._replace(scores=()) for one in TEST]
    dev = _write(tmp_path / "dev.json", plain)
    monkeypatch.setattr(Scorer, "from_config", None)  # not to be reached
    with pytest.raises(UserError):
        rerank.run(config(*test, dev=dev))


def test_words_are_split_at_any_whitespace():
    lists = [NBest(("a\tb c", "a\u00a0b"), "a b\u3000c", (0, 0))]
    scorer = WordScorer(mlm={**WORDS, "a\tb": 0, "a\u00a0b": 0})
    found = rerank.arrays(lists, scorer, ("mlm",))
    assert found.num_errors.tolist() == [[0, 1]] and found.num_words == [3]
