"""Whole runs of fine-tuning, as the command line starts them."""

import json
import os
import pathlib
import shutil
import signal
import sys
import types

import keras
import launch_local
import numpy as np
import pytest
import tiny_finetuning as tiny
from tiny import assert_same

import electra_tf
from electra_tf.checkpoint import bundles, loading
from electra_tf.finetune import run as finetuning_run
from electra_tf.finetune.experiment import Experiment
from electra_tf.finetune.trial import Trial
from electra_tf.training import callbacks
from electra_tf.util.errors import StoppedBySignal, UserError


def _config(data_dir, **leaves):
    return tiny.config(data_dir, iterations_per_loop=5, **leaves)


DONE = {
    "num_trials": 2,
    "num_train_epochs": 8.0,
    "write_test_outputs": True,
    "n_writes_test": 1,
}


def _lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _untrained(data_dir, to):
    """Copies data and encoder without the outputs of runs."""
    names = ("finetuning_models", "results", "*_predictions", "submissions")
    ignored = shutil.ignore_patterns(*names)
    return shutil.copytree(data_dir, to, ignore=ignored)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    tiny.write_model(directory)
    tiny.write_sst(directory)
    tiny.write_pos(directory)
    return directory


@pytest.fixture(scope="module")
def done(data_dir):
    """Returns configuration, directory and report of two finished trials."""
    config = _config(data_dir, **DONE)
    whole = finetuning_run.run(config)
    return config, data_dir / "models" / "tiny", whole


def test_the_best_weights_of_a_task_that_is_learnt_are_kept(done):
    _, model_dir, whole = done
    assert whole["summary"]["dev"]["accuracy"]["median"] > 85
    assert [t["seed"] for t in whole["trials"]] == [0, 1]
    trial = model_dir / "finetuning_models/sst_model_1"
    evaluations = json.loads((trial / "evaluations.json").read_text("utf-8"))
    assert [e["step"] for e in evaluations] == [6 * i for i in range(1, 9)]
    found = [e["metrics"]["dev"] for e in evaluations]
    ranks = [(x["accuracy"], -x["loss"]) for x in found]
    best = evaluations[ranks.index(max(ranks))]
    assert whole["trials"][0]["step"] == best["step"]
    kept = bundles.read(bundles.find(trial / "model"))
    assert kept["global_step"] == best["step"]


def test_predictions_agree_with_the_metrics(done):
    _, model_dir, whole = done
    for result in whole["trials"]:
        name = f"sst_dev_{result['trial']}_predictions.jsonl"
        rows = _lines(model_dir / "dev_predictions" / name)
        assert [row["eid"] for row in rows] == list(range(16))
        metrics = result["metrics"]["dev"]
        hits = [row["label"] == row["prediction"] for row in rows]
        assert metrics["accuracy"] == pytest.approx(100 * np.mean(hits))
        likelihoods = [row["probabilities"][row["label"]] for row in rows]
        loss = -np.mean(np.log(likelihoods))
        assert loss == pytest.approx(metrics["loss"], rel=1e-4)


def test_predict_answers_as_the_run_did(done, data_dir):
    _, model_dir, _ = done
    path = data_dir / "finetuning_data/sst/dev.tsv"
    _, *rows = path.read_text("utf-8").splitlines()
    texts = [row.partition("\t")[0] for row in rows]
    trial = model_dir / "finetuning_models/sst_model_2"
    answers = electra_tf.Predictor(trial)(texts)
    lines = _lines(model_dir / "dev_predictions/sst_dev_2_predictions.jsonl")
    for answer, line in zip(answers, lines, strict=True):
        expected = pytest.approx(line["probabilities"], abs=1e-6)
        assert answer["probabilities"] == expected


def test_a_trial_that_is_done_is_kept(done, monkeypatch):
    config, _, whole = done
    monkeypatch.setattr(Trial, "_train", None)
    assert finetuning_run.run(config) == whole


def _other_encoder(data_dir):
    other = data_dir / "other"
    loading.write(str(other), tiny.weights(seed=1), "electra_tf")
    for path in other.glob("model.ckpt-*"):
        shutil.copy(path, data_dir / "models" / "tiny")


def _other_rows(data_dir):
    path = data_dir / "finetuning_data/sst/train.tsv"
    head, first, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *rows, first]) + "\n")


@pytest.mark.parametrize("change", [_other_encoder, _other_rows])
def test_a_trial_never_resumes_with_changed_inputs(
    change, done, data_dir, tmp_path
):
    copy = shutil.copytree(data_dir, tmp_path / "data")
    change(copy)
    with pytest.raises(UserError):
        finetuning_run.run(_config(copy, **DONE))


@pytest.fixture(scope="module")
def together(data_dir):
    """Returns the report of a run of two tasks, and the model directory."""
    config = _config(data_dir, task_names=("sst", "pos"), num_train_epochs=8.0)
    return finetuning_run.run(config), data_dir / "models" / "tiny"


@pytest.mark.slow
def test_two_tasks_are_learnt_together(together):
    whole, _ = together
    (trial,) = whole["trials"]
    values = [trial["metrics"][f"{x}_dev"]["accuracy"] for x in ("sst", "pos")]
    assert min(values) > 75
    assert trial["metrics"]["all"] == {"mean": pytest.approx(np.mean(values))}
    assert trial["num_steps"] == (48 + 30) * 8 // 8


class _Killer(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 10:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("run", "tasks", "num_steps"),
    [
        ("done", ("sst",), 48),
        pytest.param("together", ("sst", "pos"), 78, marks=pytest.mark.slow),
    ],
)
def test_a_resume_is_bit_exact(
    run, tasks, num_steps, data_dir, tmp_path, monkeypatch, request
):
    _, model_dir, *_ = request.getfixturevalue(run)
    config = _config(
        _untrained(data_dir, tmp_path / "killed"),
        task_names=tasks,
        num_train_epochs=8.0,
        save_checkpoints_steps=4,
    )
    with monkeypatch.context() as patch:
        patch.setattr(callbacks, "ProgressBar", lambda *a, **k: _Killer())
        with pytest.raises(StoppedBySignal):
            finetuning_run.run(config)
    finetuning_run.run(config)
    resumed_dir = pathlib.Path(config.trial_dir(1, 0))
    steps = [line["step"] for line in _lines(resumed_dir / "metrics.jsonl")]
    assert steps == sorted(set(steps)) and steps[-1] == num_steps
    whole = model_dir / "finetuning_models" / resumed_dir.name
    paths = (x / f"model.ckpt-{num_steps}" for x in (resumed_dir, whole))
    assert_same(*map(bundles.read, paths))


@pytest.mark.slow
def test_two_workers_equal_one_process(together, data_dir, tmp_path):
    _, one = together
    copy = _untrained(data_dir, tmp_path / "two")
    flags = (
        f"--data_dir={copy} --model_name=tiny --task_names=sst,pos "
        "--num_train_epochs=8 --train_batch_size=8 --learning_rate=3e-3 "
        "--max_restarts=0 --iterations_per_loop=5 --write_test_outputs"
    )
    command = [sys.executable, "-m", "electra_tf.run_finetuning"]
    assert launch_local.launch([*command, *flags.split()], num_workers=2) == 0
    two = copy / "models/tiny"
    for name in ("results/sst+pos_results.json", "dev_predictions/sst+pos"):
        assert (two / name).exists()
    trial = "finetuning_models/sst+pos_model_1/model"
    weights = [bundles.read(bundles.find(x / trial)) for x in (one, two)]
    for name, value in weights[0].items():
        np.testing.assert_allclose(
            weights[1][name], value, atol=1e-4, err_msg=name
        )


@pytest.mark.parametrize(
    ("failures", "most", "expected", "restarts"),
    [(0, 2, 0, 0), (1, 2, 1, 1), (9, 0, 0, 0), (3, 3, 3, 3), (9, 3, 1, 3)],
)
def test_a_trial_is_restarted_while_it_fails_and_the_best_is_kept(
    failures, most, expected, restarts, monkeypatch
):
    def make_trial(experiment, number, restart):
        score = (50.0, 60.0, 60.0, 0.0)[restart]
        result = {"collapsed": restart < failures, "metrics": score}
        return types.SimpleNamespace(
            restart=restart, result=result, run=lambda: None
        )

    monkeypatch.setattr(finetuning_run, "Trial", make_trial)
    monkeypatch.setattr(Experiment, "rank", lambda self, score: (score,))
    config = tiny.config(max_restarts=most)
    experiment = Experiment(config, (), None, None, {})
    trial = finetuning_run.run_trial(experiment, 1)
    assert trial.restart == expected
    assert trial.result["restarts"] == restarts
