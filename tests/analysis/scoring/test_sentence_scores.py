import numpy as np
from word_scorer import WordScorer

from electra_tf.analysis.scoring import sentence_scores


def test_a_total_sums_over_tokens_and_a_mean_averages():
    scorer = WordScorer(mlm={"a": -1.0, "b": -3.0}, electric={"a": 2, "b": 0})
    texts = ["a b b", "a", "", "a b b"]
    found = sentence_scores.of_texts(scorer, texts, ("electric", "mlm"))
    expected = {
        "electric, total": [2, 2, -np.inf, 2],
        "electric, mean": [2 / 3, 2, -np.inf, 2 / 3],
        "mlm, total": [-7, -1, -np.inf, -7],
        "mlm, mean": [-7 / 3, -1, -np.inf, -7 / 3],
    }
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values)
    assert [x[0] for x in scorer.asked] == [
        "a b b",
        "a",
        "",
    ]  # equal texts once


def test_texts_of_equal_tokens_tie_whatever_rounding_does():
    scores = iter((-1.0, -1.0 - 1e-7))

    class Rounding(WordScorer):
        def _tokens(self, text, num_repairs):
            self.log_probs = {"mlm": {"a": next(scores)}}
            return super()._tokens(text, num_repairs)

    found = sentence_scores.of_texts(
        Rounding(mlm={}), ["a", "a ", "a"], ("mlm",)
    )
    assert len(set(found["mlm, total"])) == 1
