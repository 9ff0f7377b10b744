"""The commands write for fixed inputs what they wrote before."""

import json

import golden_runs
import nets
import pytest

GOLDEN = json.loads(nets.PATH.read_text("utf-8"))


def _check(found, expected):
    assert golden_runs.close(json.loads(json.dumps(found)), expected)


@pytest.mark.parametrize("packing", nets.PACKINGS)
def test_records_are_the_same_bytes(packing):
    found = nets.records(packing)
    assert found == GOLDEN["records"][packing]


def test_scores_are_the_same():
    _check(nets.scores(), GOLDEN["scores"])


def test_saved_models_answer_the_same():
    _check(nets.run_signatures(), GOLDEN["signatures"])


@pytest.mark.parametrize("kind", nets.KINDS)
def test_predictions_are_the_same(kind):
    _check(nets.predictions(kind), GOLDEN["predictions"][kind])


def test_converted_weights_are_the_same_bytes():
    assert nets.conversions() == GOLDEN["conversions"]
