import numpy as np

from electra_tf.analysis import scores as score_output
from electra_tf.analysis.scores import Repair, TextScores, TokenScore


def _token(token, start, end, probability):
    log_probs = {"discriminator": float(np.log(1 - probability))}
    repairs = (Repair("ate", 0.5),)
    places = (start, end) * 2  # in characters and in bytes
    return TokenScore(token, *places, probability, log_probs, repairs)


TABLE = """\
The [Meal] ate.
  original        generated       P(replaced)     verdict         discriminator
  the                             0.25            original        -0.29
  meal            ate             0.75            replaced        -1.39
  mean log-probability, nats: discriminator -0.837"""


def test_a_table_shows_the_users_text_with_flagged_tokens_in_brackets():
    tokens = (_token("the", 0, 3, 0.25), _token("meal", 4, 8, 0.75))
    found = TextScores("The Meal ate.", tokens)
    assert score_output.table(found) == TABLE


def test_a_text_without_tokens_has_an_empty_table_and_scores_of_0():
    found = TextScores(" ", ())
    assert score_output.table(found) == " \n  (no tokens)"
    zeros = {"total": 0, "mean": 0, "mean_per_word": 0, "num_tokens": 0}
    stored = score_output.to_json(found, ("mlm", "electric"))["scores"]
    assert stored == {"mlm": zeros, "electric": zeros}
