import math

from electra_tf.analysis.scoring.scores import TextScores, TokenScore


def _token(log_prob):
    return TokenScore("a", 0, 1, 0, 1, None, {"mlm": log_prob})


def test_a_text_has_the_sum_and_the_mean_of_its_tokens():
    logs = [math.log(0.5), math.log(0.25), math.log(0.5)]
    found = TextScores("aaa", tuple(map(_token, logs)))
    assert math.isclose(found.total("mlm"), math.log(1 / 16))
    assert math.isclose(found.mean("mlm"), math.log(1 / 16) / 3)
