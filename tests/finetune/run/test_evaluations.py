"""Choice of the checkpoint, and early stopping."""

import json
import types

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune.run.evaluations import Evaluations
from electra_tf.finetune.run.experiment import Experiment, Split, TaskData

EVALUATIONS = [
    {"step": step, "metrics": {"dev": {"accuracy": accuracy, "loss": loss}}}
    for step, accuracy, loss in (
        *((1, 70.0, 0.1), (2, 80.0, 0.9), (3, 80.0, 0.8)),
        *((4, 80.0, 0.7), (5, 80.0, 0.8)),
    )
]


def _evaluations(path="unused", **leaves):
    scorer = types.SimpleNamespace(main_metric="accuracy", tie_metrics=())
    config = tiny.config(**leaves)
    task = types.SimpleNamespace(
        name="sst",
        get_scorer=lambda: scorer,
        dev_splits=("dev",),
        config=config,
    )
    data = TaskData(task, None, [Split(task, "dev", "dev", (), None)])
    experiment = Experiment(config, (data,), None, None, {})
    return Evaluations(experiment, path)


@pytest.mark.parametrize(("checkpoint", "expected"), [("best", 4), ("last", 5)])
def test_loss_breaks_ties_but_only_a_better_score_delays_early_stopping(
    checkpoint, expected
):
    evaluations = _evaluations(early_stopping=4, checkpoint=checkpoint)
    assert not evaluations.patience_is_over
    for evaluation in EVALUATIONS:
        evaluations.add(evaluation)
    assert evaluations.chosen["step"] == expected
    assert not evaluations.patience_is_over
    evaluations.add({**EVALUATIONS[-1], "step": 6})
    # Four evaluations after step 2, the first with the best score.
    assert evaluations.patience_is_over


def test_a_resume_knows_the_evaluations_up_to_its_step(tmp_path):
    path = tmp_path / "evaluations.json"
    later = {**EVALUATIONS[-1], "step": 6}
    path.write_text(json.dumps([*EVALUATIONS, later]), "utf-8")
    evaluations = _evaluations(path)
    evaluations.read(5)
    assert [evaluations.has(step) for step in range(7)] == [0, *[1] * 5, 0]
    assert evaluations.chosen["step"] == 4
