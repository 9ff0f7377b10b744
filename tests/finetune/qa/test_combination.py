import collections
import math

import numpy as np
import pytest

from electra_tf.config.qa import QAConfig
from electra_tf.finetune.qa import answer_spans, combination

ROWS, PLACES, LENGTH, MODELS = 3, 4, 9, 3


def _common(random):
    return {
        "eid": np.arange(ROWS),
        "word_numbers": np.ones((ROWS, LENGTH), np.int32),
        "is_max_context": np.ones((ROWS, LENGTH), np.int32),
        "answerable_logit": random.normal(size=ROWS).astype(np.float32),
        "loss": random.random(ROWS).astype(np.float32),
    }


def _beams(random):
    """Returns the outputs of a model with a beam: each span there once."""
    choose = [random.permutation(LENGTH)[:PLACES] for _ in range(ROWS * 5)]
    scores = -random.random((2, ROWS, PLACES, PLACES)).astype(np.float32) * 5
    return _common(random) | {
        "start_top_index": np.stack(choose[:ROWS]),
        "end_top_index": np.stack(choose[ROWS:]).reshape(ROWS, PLACES, PLACES),
        "start_top_log_probs": scores[0, :, 0],
        "end_top_log_probs": scores[1],
        "null_log_prob": scores[0, :, 1, 1],
    }


def test_a_span_has_the_mean_of_its_probabilities():
    random = np.random.default_rng(3)
    outputs = [_beams(random) for _ in range(MODELS)]
    expected = collections.Counter()
    for part in outputs:
        for row in range(ROWS):
            for i, start in enumerate(part["start_top_index"][row]):
                for j, end in enumerate(part["end_top_index"][row, i]):
                    score = part["start_top_log_probs"][row, i]
                    score += part["end_top_log_probs"][row, i, j]
                    key = (row, int(start), int(end))
                    expected[key] += math.exp(score) / MODELS
    joined = combination.combine(outputs)
    config = QAConfig(max_answer_length=LENGTH)
    spans = answer_spans.find_spans(joined, config)
    found = {}
    for number in range(len(spans.rows)):
        span = spans.at(number)
        found[span[:3]] = math.exp(span.start_score + span.end_score)
    valid = {k: p for k, p in expected.items() if k[1] <= k[2]}
    assert len(valid) < len(spans.rows)  # some are in several beams
    assert found == pytest.approx(valid, rel=1e-5)
    nulls = np.mean([np.exp(part["null_log_prob"]) for part in outputs], 0)
    np.testing.assert_allclose(np.exp(joined["null_log_prob"]), nulls, 1e-5)
    for name in ("answerable_logit", "loss"):
        means = np.mean([part[name] for part in outputs], 0)
        np.testing.assert_allclose(joined[name], means, rtol=1e-6)


def test_logits_without_a_beam_are_averaged():
    random = np.random.default_rng(4)
    outputs = []
    for _ in range(2):
        logits = random.normal(size=(2, ROWS, LENGTH)).astype(np.float32)
        names = ("start_logits", "end_logits")
        outputs.append(_common(random) | dict(zip(names, logits, strict=True)))
    joined = combination.combine(outputs)
    for name in ("start_logits", "end_logits", "answerable_logit"):
        expected = (outputs[0][name] + outputs[1][name]) / 2
        np.testing.assert_allclose(joined[name], expected, rtol=1e-6)
    assert joined.keys() == outputs[0].keys()
