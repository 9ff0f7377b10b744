"""Batches of a trial, its seed, its choice of weights, and statistics."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.finetune import run
from electra_tf.finetune.experiment import Experiment, Split, TaskData
from electra_tf.finetune.preprocessing import Features
from electra_tf.finetune.trial import Trial, rows_of_worker
from electra_tf.util import seeds

TASKS = {"cola": (60, 40), "sst": (90, 60)}  # rows, and the longest


def test_updates_keep_the_order_of_rows_and_a_resume_takes_the_rest():
    data = []
    for name, (num_rows, longest) in TASKS.items():
        sizes = np.random.default_rng(num_rows).integers(3, 20, num_rows)
        sizes[::11] = longest
        ids = [np.ones(n, int) for n in sizes]
        rows = [{"input_ids": x, "eid": i} for i, x in enumerate(ids)]
        task = types.SimpleNamespace(name=name, num_train_epochs=2.0)
        data.append(TaskData(task, Features(rows), ()))
    config = tiny.config(task_names=tuple(TASKS), train_batch_size=4)
    strategy = tf.distribute.get_strategy()
    trial = Trial(Experiment(config, tuple(data), None, strategy, {}), 1)

    def updates_from(step):
        """Yields task, length, row numbers and sizes of each update."""
        batches = trial._batches(trial.experiment.updates(trial.seed), step)
        for source in batches.order:
            ((name, batch),) = next(batches.iterators[int(source)]).items()
            sizes = batch["input_mask"].numpy().sum(1).tolist()
            length = batch["input_ids"].shape[1]
            yield name, length, batch["eid"].numpy().tolist(), sizes

    all_updates = list(updates_from(0))
    assert len(all_updates) == 75
    for step in (30, 74):
        assert list(updates_from(step)) == all_updates[step:]
    for task, train, *_ in data:
        mine = [update for update in all_updates if update[0] == task.name]
        rows, sizes = (sum((x[i] for x in mine), []) for i in (2, 3))
        epochs = [seeds.permutation(train.num_rows, 0, i) for i in range(3)]
        assert rows == np.concatenate(epochs)[: len(rows)].tolist()
        assert sizes == train.lengths[rows].tolist()  # no row is truncated
    lengths = [length for _, length, *_ in all_updates]
    assert len({update[:2] for update in all_updates}) > 2
    for length in sorted(set(lengths))[:-2]:
        assert lengths.count(length) >= 0.05 * 75


@pytest.mark.parametrize(("workers", "replicas"), [(2, 1), (1, 2), (2, 2)])
def test_workers_and_replicas_share_the_same_global_batches(workers, replicas):
    rows = np.random.default_rng(0).permutation(12).reshape(3, 4)
    parts = [
        rows_of_worker(rows, worker, workers, workers * replicas)
        for worker in range(workers)
    ]
    for step, batch in enumerate(rows):
        mine = slice(step * replicas, (step + 1) * replicas)
        shares = np.concatenate([part[mine] for part in parts])
        assert shares.reshape(-1).tolist() == batch.tolist()


def test_each_trial_and_each_restart_has_its_own_seed():
    experiment = Experiment(tiny.config(seed=7), (), None, None, {})
    pairs = [(number, restart) for number in (1, 2, 3) for restart in (0, 1)]
    trials = [Trial(experiment, *pair) for pair in pairs]
    assert trials[0].seed == 7 and trials[2].seed == 8
    assert len({trial.seed for trial in trials}) == len(pairs)
    assert len({trial.directory for trial in trials}) == len(pairs)


EVALUATIONS = [
    {"step": step, "metrics": {"dev": {"accuracy": accuracy, "loss": loss}}}
    for step, (accuracy, loss) in enumerate(
        [(70.0, 0.1), (80.0, 0.9), (80.0, 0.8), (80.0, 0.7), (80.0, 0.8)], 1
    )
]


@pytest.mark.parametrize(("checkpoint", "expected"), [("best", 4), ("last", 5)])
def test_loss_breaks_ties_but_only_a_better_score_delays_early_stopping(
    checkpoint, expected
):
    task = types.SimpleNamespace(main_metric="accuracy")
    data = TaskData(task, None, [Split(task, "dev", "dev", (), None)])
    config = tiny.config(early_stopping=4, checkpoint=checkpoint)
    trial = Trial(Experiment(config, (data,), None, None, {}), 1)
    assert not trial.patience_is_over
    trial.evaluations = [*EVALUATIONS]
    assert trial.chosen["step"] == expected
    assert not trial.patience_is_over
    trial.evaluations.append({**EVALUATIONS[-1], "step": 6})
    # Four evaluations after step 2, the first with the best score.
    assert trial.patience_is_over


def test_statistics_over_trials():
    values = [70.0, 60.0, 80.0, 66.0]
    results = [
        {
            "trial": i,
            "restarts": i,
            "directory": f"m_{i}",
            "collapsed": i == 1,
            "metrics": {"dev": {"accuracy": value, "loss": 1 / value}},
        }
        for i, value in enumerate(values)
    ]
    summary = run.summarize(results)["dev"]
    assert summary["accuracy"] == {
        "median": pytest.approx(68.0),
        "mean": pytest.approx(69.0),
        "std": pytest.approx(np.sqrt((1 + 81 + 121 + 9) / 3)),
        "best": 80.0,
    }
    assert summary["loss"]["best"] == pytest.approx(1 / 80)
    assert run.summarize(results[:1])["dev"]["loss"]["std"] == 0
    _, accuracy, *_ = run.table("sst", results).splitlines()
    shown = "dev accuracy 70.00 60.00 80.00 66.00 68.00 69.00 8.41 80.00"
    assert accuracy.split() == shown.split()
