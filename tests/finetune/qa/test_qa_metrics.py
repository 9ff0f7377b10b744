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
