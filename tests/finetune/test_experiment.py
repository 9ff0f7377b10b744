"""Training on several tasks: their shares and their joint score."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.finetune.experiment import (
    Experiment,
    Split,
    TaskData,
    read_task,
)
from electra_tf.util import seeds

ROWS = {"cola": 1600, "sst": 400}


def _task(name, epochs, is_degenerate=False):
    scorer = types.SimpleNamespace(
        main_metric="accuracy",
        tie_metrics=(),
        ensemble_outputs=("logits",),
        score=lambda outputs, examples: {"accuracy": outputs, "loss": 0.0},
        is_degenerate=lambda outputs, examples: is_degenerate,
    )
    return types.SimpleNamespace(
        name=name,
        num_train_epochs=epochs,
        get_scorer=lambda: scorer,
        dev_splits=("dev", "dev_other"),
        config=tiny.config(task_names=tuple(ROWS)),
    )


def _experiment(epochs=(1.0, 1.0), degenerate=(False, False), **leaves):
    config = tiny.config(task_names=tuple(ROWS), **leaves)
    data = []
    for name, *rest in zip(ROWS, epochs, degenerate, strict=True):
        task = _task(name, *rest)
        dev = [
            Split(task, split, f"{name}_{split}", (), None)
            for split in ("dev", "dev_other")
        ]
        rows = types.SimpleNamespace(num_rows=ROWS[name])
        data.append(TaskData(task, rows, dev))
    return Experiment(config, tuple(data), None, None, {})


@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0])
def test_the_share_of_a_task_is_its_size_to_the_power_of_alpha(alpha):
    experiment = _experiment(train_batch_size=4, task_sampling_alpha=alpha)
    schedule = experiment.task_schedule(0)
    assert len(schedule) == experiment.num_train_steps == 500
    expected = 500 * 1600**alpha / (1600**alpha + 400**alpha)
    assert abs((schedule == 0).sum() - expected) < 3


def test_alpha_may_change_in_a_straight_line():
    experiment = _experiment(
        train_batch_size=2, task_sampling_alpha=1.0, task_sampling_alpha_end=0.2
    )
    alphas = 1.0 - 0.8 * np.arange(1000) / 999
    shares = 1 / (1 + (400 / 1600) ** alphas)
    first = experiment.task_schedule(0) == 0
    for part in np.split(np.arange(1000), 4):
        assert abs(first[part].sum() - shares[part].sum()) < 4


def test_at_alpha_1_each_task_trains_for_its_own_epochs():
    experiment = _experiment(epochs=(1.0, 10.0), train_batch_size=4)
    counts = np.bincount(experiment.task_schedule(0))
    assert experiment.num_train_steps == (1600 + 4000) / 4
    np.testing.assert_allclose(counts, [400, 1000], atol=2)
    # A row is seen 2.8 times on average.
    assert experiment.evaluation_steps == [467, 933, 1400]


def test_no_evaluation_comes_before_the_first_update():
    experiment = _experiment(train_batch_size=1000, num_evaluations=5)
    assert experiment.num_train_steps == 2
    assert experiment.evaluation_steps == [1, 2]


def _training_ids(data_dir, **leaves):
    leaves = {"do_eval": False, "checkpoint": "last", "seed": 3, **leaves}
    train = read_task(tiny.task("sst", data_dir, **leaves), {}).train
    return train.batch(tf.range(train.num_rows), 32)["input_ids"].numpy()


@pytest.mark.parametrize(("most", "size"), [(12, 12), (99, 48)])
def test_a_sample_of_the_training_examples_keeps_their_order(
    most, size, tmp_path
):
    tiny.write_sst(tmp_path, num_train=48)
    whole = _training_ids(tmp_path)
    found = _training_ids(tmp_path, max_train_examples=most)
    sample = np.sort(seeds.permutation(48, 3)[:size])
    np.testing.assert_array_equal(found, whole[sample])


def _model(**values):
    def outputs_of(task, features, batch_size, *, without):
        assert without == ("logits",)  # an evaluation is of one model
        return values[task]

    return types.SimpleNamespace(outputs_of=outputs_of)


def test_the_score_of_several_tasks_is_the_mean_of_main_metrics():
    experiment = _experiment()
    found = experiment.evaluate(_model(cola=20.0, sst=90.0))
    assert list(found["metrics"]) == [
        *("cola_dev", "cola_dev_other", "sst_dev", "sst_dev_other", "all")
    ]
    assert found["metrics"]["sst_dev"]["accuracy"] == 90
    assert found["metrics"]["all"] == {"mean": 55.0}
    metrics = found["metrics"] | {"sst_dev_other": {"accuracy": 0.0}}
    assert experiment.score(metrics) == 55, "other splits do not choose"


@pytest.mark.parametrize(
    ("degenerate", "expected"), [((True, False), False), ((True, True), True)]
)
def test_a_run_is_degenerate_where_all_tasks_are(degenerate, expected):
    experiment = _experiment(degenerate=degenerate)
    assert experiment.evaluate(_model(cola=1, sst=1))["collapsed"] is expected


def _dev(accuracy, loss, **others):
    return {"accuracy": accuracy, "loss": loss, **others}


def test_equal_scores_are_told_apart_by_their_loss():
    experiment = _experiment()
    found = [
        {"cola_dev": _dev(80.0, 0.5), "sst_dev": _dev(90.0, 0.9)},
        {"cola_dev": _dev(90.0, 0.6), "sst_dev": _dev(80.0, 0.7)},
        {"cola_dev": _dev(80.0, 0.1), "sst_dev": _dev(89.0, 0.1)},
    ]
    losses = [np.mean([x["loss"] for x in e.values()]) for e in found[:2]]
    assert losses == [0.7, pytest.approx(0.65)]
    assert max(found, key=experiment.rank) is found[1]


def test_tie_metrics_of_a_scorer_rank_before_the_loss():
    experiment = _experiment()
    for data in experiment.tasks:
        data.task.get_scorer().tie_metrics = ("span_f1",)
    cola = {"cola_dev": _dev(50.0, 0.1)}  # no row of it has such a metric
    few = {**cola, "sst_dev": _dev(50.0, 0.2, span_f1=7.0)}
    many = {**cola, "sst_dev": _dev(50.0, 0.9, span_f1=8.0)}
    assert max([few, many], key=experiment.rank) is many
    better = {**cola, "sst_dev": _dev(50.1, 0.9, span_f1=1.0)}
    assert max([many, better], key=experiment.rank) is better
