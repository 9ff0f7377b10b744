"""Answers of trials: the models that are made for them."""

import types

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune.examples import InputExample
from electra_tf.finetune.run import predictions
from electra_tf.finetune.run.experiment import Experiment, Split, TaskData


@pytest.mark.parametrize("num_test_rows", [0, 2])
def test_a_trial_that_answers_no_split_makes_no_model(num_test_rows):
    task = types.SimpleNamespace(test_splits=("test",))
    rows = [InputExample(i, "a") for i in range(num_test_rows)]
    test = [Split(task, "test", "test", rows, None)] * bool(rows)
    config = tiny.config(n_writes_test=1)
    experiment = Experiment(
        config, (TaskData(task, None, (), test),), None, None, {}
    )
    trial = types.SimpleNamespace(number=2, model=None)
    assert predictions.write(experiment, [trial]) == ([{}], {})
