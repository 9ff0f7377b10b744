import numpy as np
import pytest
from tiny_analysis import WordScorer, config, draw

from electra_tf.analysis import pos_bias
from electra_tf.analysis.replaced_tokens import ReplacedTokens
from electra_tf.analysis.scorer import Scorer

SENTENCE = "1\tdogs\t_\tNOUN\n2\tbark+s\t_\tVERB\n3\tat\t_\tADP\n"
RATES = ("false_positives", "true_positives", "generator_error")
TABLE = {"dogs": 0.6, "bark": 0.1, "s": 0.7, "at": 0.5}


def _replace_tokens(scorer, texts, seed):
    """Replaces the first token and the third; all texts but one are cut."""
    sizes = [3] * (len(texts) - 1) + [4]
    logits = np.concatenate([[1.0, -1.0, -2.0, -3.0][:n] for n in sizes])
    text = np.repeat(np.arange(len(texts)), sizes)
    is_replaced = np.isin(logits, [1.0, -2.0])
    return ReplacedTokens(
        logits, is_replaced, is_replaced, logits == -2.0, text
    )


def test_rates_are_counted_by_the_tag_of_the_word(tmp_path, monkeypatch):
    monkeypatch.setattr(pos_bias, "replace_tokens", _replace_tokens)
    (tmp_path / "x.conllu").write_text("\n".join([SENTENCE] * 3))
    scorer = WordScorer(TABLE)
    monkeypatch.setattr(Scorer, "from_config", lambda _: scorer)
    report = pos_bias.run(config(tmp_path / "x.conllu", what="pos_bias"))
    tags = report.results["tags"]
    assert {tag: x["tokens"] for tag, x in tags.items()} == {
        "all": 10,
        "ADP": 1,  # two texts are cut before it
        "NOUN": 3,
        "VERB": 6,
    }
    values = {tag: [x[name].value for name in RATES] for tag, x in tags.items()}
    nan = np.nan
    expected = {
        "all": [6 / 10, 3 / 6, 3 / 6],
        "ADP": [0, nan, nan],  # 0.5 is not over 0.5
        "NOUN": [1, 1, 1],
        "VERB": [3 / 6, 0, 0],  # of "s"
    }
    for tag in expected:
        np.testing.assert_equal(values[tag], expected[tag])
    assert tags["VERB"]["AUC"].value == 0  # -2 replaced, -1 not
    assert np.isnan(tags["NOUN"]["AUC"].value)  # all are replaced
    # 1 before -1 and -3, -2 before -3 alone.
    replaced, others = [1.0, -2.0] * 3, [-1.0] * 3 + [-3.0]
    auc = np.mean([[a > b for b in others] for a in replaced])
    assert tags["all"]["AUC"].value == pytest.approx(auc)
    draw(report)
