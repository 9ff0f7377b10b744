"""Training runs reproduce the results stored in tests/golden/runs.json."""

import json

import golden_runs
import pytest
import tiny

GOLDEN = json.loads(golden_runs.PATH.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", tiny.VARIANTS)
def test_pre_training_reproduces_the_golden_run(variant):
    found, expected = golden_runs.pretraining(variant), GOLDEN["pretraining"]
    assert found["variables"] == expected[variant]["variables"]
    assert golden_runs.close(found, expected[variant])


@pytest.mark.slow
@pytest.mark.parametrize("kind", golden_runs.KINDS)
def test_fine_tuning_reproduces_the_golden_run(kind):
    found, expected = golden_runs.finetuning(kind), GOLDEN["finetuning"][kind]
    assert found["files"] == expected["files"]
    assert golden_runs.close(found, expected)
