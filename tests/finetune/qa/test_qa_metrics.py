import numpy as np
import pytest
from golden_qa import GOLDEN, NAMES, SETUPS, examples

from electra_tf.finetune.qa import qa_metrics


@pytest.mark.parametrize("pair", GOLDEN["pairs"])
def test_two_texts_score_as_in_the_original(pair):
    texts = pair["gold"], pair["pred"]
    normal = [qa_metrics.normalize_answer(text) for text in texts]
    assert normal == [pair["norm_gold"], pair["norm_pred"]]
    assert qa_metrics.exact_score(*texts) == pair["exact"]
    assert qa_metrics.f1_score(*texts) == pair["f1_v1"] == pair["f1_mrqa"]
    assert qa_metrics.f1_score_v2(*texts) == pair["f1"]


@pytest.mark.parametrize("setup", SETUPS, ids=NAMES)
def test_figures_are_those_of_the_official_scripts(setup):
    golden = [example.answers for example in examples(setup)]
    figures = (
        qa_metrics.squad_v1(golden, setup["preds"])
        if setup["null_odds"] is None
        else qa_metrics.squad_v2(
            golden, setup["preds"], setup["null_odds"], setup["threshold"]
        )
    )
    assert figures == setup["results"]


def test_the_best_threshold_is_the_best_of_all():
    random = np.random.default_rng(0)
    golden = [("a b",) if x else () for x in random.integers(0, 4, 40)]
    guesses = ["a b", "a b", "a b", "b c", "d", ""]
    predictions = random.choice(guesses, 40).tolist()
    odds = random.permutation(40) / 8 - 2  # no two alike
    by_threshold = [
        qa_metrics.squad_v2(golden, predictions, odds, threshold)
        for threshold in (-np.inf, *odds)
    ]
    for name in ("exact", "f1"):
        found = by_threshold[0][f"best_{name}"]
        assert found == pytest.approx(max(x[name] for x in by_threshold))
        threshold = by_threshold[0][f"best_{name}_thresh"]
        at_best = qa_metrics.squad_v2(golden, predictions, odds, threshold)
        assert at_best[name] == pytest.approx(found)
