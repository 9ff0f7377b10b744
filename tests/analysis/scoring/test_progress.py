from word_scorer import WordScorer

from electra_tf.analysis.scoring import progress
from electra_tf.util import console


def test_long_scoring_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LOGS", -1)
    found = progress.score_texts(
        WordScorer({}), ["a b", "c"], ["discriminator"]
    )
    assert [scores.text for scores in found] == ["a b", "c"]
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("Scored 1 of 2 texts")
    assert second.startswith("Scored 2 of 2 texts")
