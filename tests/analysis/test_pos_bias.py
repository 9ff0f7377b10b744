import numpy as np
import pytest
from analysis_configs import config
from word_scorer import WordScorer

from electra_tf.analysis import pos_bias
from electra_tf.analysis.replaced_tokens import ReplacedText
from electra_tf.analysis.scorer import Scorer

SENTENCE = "1\tdogs\t_\tNOUN\n2\tbark+s\t_\tVERB\n3\tat\t_\tADP\n"
TABLE = {"dogs": 0.6, "bark": 0.1, "s": 0.7, "at": 0.5}


def _replace_tokens(scorer, texts, seed):
    """Replaces the first token and the third, of four at most."""
    logits = np.array([1.0, -1.0, -2.0, -3.0])
    is_replaced = np.array([True, False, True, False])
    is_predicted = np.array([False, False, True, False])
    row = (logits, is_replaced, is_replaced, is_predicted)
    short = ReplacedText(*(x[:3] for x in row))
    return [short] * (len(texts) - 1) + [ReplacedText(*row)]


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.setattr(pos_bias, "replace_tokens", _replace_tokens)
    (tmp_path / "x.conllu").write_text("\n".join([SENTENCE] * 3))

    def run(generator):
        scorer = WordScorer(TABLE)
        scorer.networks.generator = generator
        monkeypatch.setattr(Scorer, "from_config", lambda _: scorer)
        return pos_bias.run(config(tmp_path / "x.conllu", what="pos_bias"))

    found = run("one")
    assert found.results["tags"]["all"].generator_error.trials > 0
    error = run(None).results["tags"]["all"].generator_error
    assert error.trials == 0 and np.isnan(error.value)
    return found


def test_tokens_have_the_tag_of_their_word(report):
    tags = report.results["tags"]
    assert {tag: x.false_positives.trials for tag, x in tags.items()} == {
        "all": 10,
        "NOUN": 3,
        "VERB": 6,
        "ADP": 1,  # two texts are cut before it
    }


def test_rates_are_counted_by_tag(report):
    tags = report.results["tags"]
    assert tags["NOUN"].false_positives.hits == 3
    assert tags["VERB"].false_positives.hits == 3  # of "s"
    assert tags["ADP"].false_positives.hits == 0  # 0.5 is not over 0.5
    assert tags["NOUN"].true_positives.value == 1
    verbs = tags["VERB"]
    assert verbs.true_positives.hits == 0
    assert verbs.true_positives.trials == 3
    assert verbs.generator_error.value == 0
    assert tags["NOUN"].generator_error.value == 1
    assert tags["ADP"].generator_error.trials == 0


def test_auc_is_of_replaced_tokens_against_the_others(report):
    tags = report.results["tags"]
    assert tags["VERB"].auc.value == 0  # -2 replaced, -1 not
    assert np.isnan(tags["NOUN"].auc.value)  # all are replaced
    # 1 before -1 and -3, -2 before -3 alone.
    replaced, others = [1.0, -2.0] * 3, [-1.0] * 3 + [-3.0]
    expected = np.mean([[a > b for b in others] for a in replaced])
    assert tags["all"].auc.value == pytest.approx(expected)


def test_heterogeneity_is_the_chi_squared_test():
    rates = [(30, 100), (50, 200), (90, 150)]
    found = pos_bias.heterogeneity(rates)
    table = np.array([(hits, n - hits) for hits, n in rates], float)
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    chi_squared = np.sum((table - expected) ** 2 / expected)
    assert found["chi_squared"] == pytest.approx(chi_squared)
    assert found["degrees_of_freedom"] == 2
    assert found["p_value"] == pytest.approx(np.exp(-chi_squared / 2))  # of 2
    assert found["cramers_v"] == pytest.approx(np.sqrt(chi_squared / 450))


def test_tags_of_few_tokens_are_left_out_of_the_test():
    rates = [(30, 100), (50, 200), (1, 4)]
    assert pos_bias.heterogeneity(rates)["degrees_of_freedom"] == 1
    assert pos_bias.heterogeneity(rates[1:]) is None
    assert pos_bias.heterogeneity([(0, 90), (0, 90)]) is None
    assert pos_bias.heterogeneity([]) is None
