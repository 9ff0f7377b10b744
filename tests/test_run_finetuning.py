"""A whole run of fine-tuning, as the command line starts it."""

import importlib.util
import json
import os
import shutil
import signal

import keras
import numpy as np
import pytest
import tiny_finetuning as tiny

import electra_tf
from electra_tf.finetune import finetuning_run
from electra_tf.finetune.experiment import Experiment
from electra_tf.finetune.trial import Trial
from electra_tf.model import checkpoint_formats
from electra_tf.util import bundles, callbacks
from electra_tf.util.errors import StoppedBySignal, UserError


def _config(data_dir, **leaves):
    return tiny.config(data_dir, iterations_per_loop=5, **leaves)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    tiny.write_model(directory)
    tiny.write_sst(directory)
    return directory


@pytest.fixture(scope="module")
def done(data_dir):
    """Returns a directory with two trials that are done, and their report."""
    config = _config(
        data_dir,
        num_trials=2,
        num_train_epochs=8.0,
        write_test_outputs=True,
        n_writes_test=1,
        ensemble=True,
        write_plots=importlib.util.find_spec("matplotlib") is not None,
    )
    whole = finetuning_run.run(config)
    return config, data_dir / "models" / "tiny", whole


def test_the_task_is_learnt(done):
    _, _, whole = done
    accuracy = whole["summary"]["dev"]["accuracy"]
    assert accuracy["median"] > 85
    values = [t["metrics"]["dev"]["accuracy"] for t in whole["trials"]]
    assert accuracy["best"] == max(values)
    assert accuracy["mean"] == pytest.approx(np.mean(values))
    assert [t["seed"] for t in whole["trials"]] == [0, 1]


def test_the_report_lies_where_the_originals_does(done):
    _, model_dir, whole = done
    path = model_dir / "results/sst_results.json"
    assert json.loads(path.read_text("utf-8")) == whole
    table = (model_dir / "results/sst_results.txt").read_text("utf-8")
    assert table.split()[:3] == ["sst", "accuracy", "loss"]


def test_each_epoch_is_evaluated_and_the_best_weights_are_kept(done):
    _, model_dir, whole = done
    trial = model_dir / "finetuning_models/sst_model_1"
    evaluations = json.loads((trial / "evaluations.json").read_text("utf-8"))
    assert [e["step"] for e in evaluations] == [6 * i for i in range(1, 9)]
    values = [e["metrics"]["dev"]["accuracy"] for e in evaluations]
    best = evaluations[int(np.argmax(values))]
    assert whole["trials"][0]["step"] == best["step"]
    kept = bundles.read(bundles.find(trial / "model"))
    assert kept["global_step"] == best["step"]


def test_predictions_agree_with_the_metrics(done):
    _, model_dir, whole = done
    for result in whole["trials"]:
        name = f"sst_dev_{result['trial']}_predictions.jsonl"
        text = (model_dir / "dev_predictions" / name).read_text("utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        assert [row["eid"] for row in rows] == list(range(16))
        hits = [row["label"] == row["prediction"] for row in rows]
        expected = result["metrics"]["dev"]["accuracy"]
        assert 100 * np.mean(hits) == pytest.approx(expected)
        likelihoods = [row["probabilities"][row["label"]] for row in rows]
        loss = -np.mean(np.log(likelihoods))
        expected = result["metrics"]["dev"]["loss"]
        assert loss == pytest.approx(expected, rel=1e-4)


def test_the_ensemble_is_the_mean_of_the_trials(done):
    _, model_dir, whole = done
    found = []
    for who in (1, 2, "ensemble"):
        name = f"sst_dev_{who}_predictions.jsonl"
        text = (model_dir / "dev_predictions" / name).read_text("utf-8")
        found.append([json.loads(line) for line in text.splitlines()])
    for one, two, both in zip(*found, strict=True):
        shares = (one["probabilities"]["1"] + two["probabilities"]["1"]) / 2
        assert both["probabilities"]["1"] == pytest.approx(shares, abs=1e-6)
        assert both["prediction"] == str(int(shares > 0.5))
    hits = [row["label"] == row["prediction"] for row in found[2]]
    expected = {"accuracy": pytest.approx(100 * np.mean(hits))}
    assert whole["ensemble"] == {"metrics": {"dev": expected}}
    table = (model_dir / "results/sst_results.txt").read_text("utf-8")
    assert table.splitlines()[-1].startswith("ensemble")
    assert (model_dir / "submissions/ensemble/SST-2.tsv").exists()


def test_new_text_is_answered_as_the_dev_split_was(done, data_dir):
    _, model_dir, _ = done
    path = data_dir / "finetuning_data/sst/dev.tsv"
    _, *rows = path.read_text("utf-8").splitlines()
    texts = [row.partition("\t")[0] for row in rows]
    trial = model_dir / "finetuning_models/sst_model_2"
    answers = electra_tf.Predictor(trial)(texts)
    path = model_dir / "dev_predictions/sst_dev_2_predictions.jsonl"
    lines = path.read_text("utf-8").splitlines()
    for answer, line in zip(answers, lines, strict=True):
        expected = json.loads(line)
        assert answer["prediction"] == expected["prediction"]
        shares = pytest.approx(expected["probabilities"], abs=1e-6)
        assert answer["probabilities"] == shares


def test_the_best_trial_shows_which_label_is_taken_for_which(done):
    config, model_dir, whole = done
    values = [t["metrics"]["dev"]["accuracy"] for t in whole["trials"]]
    best = 1 + int(np.argmax(values))
    name = f"sst_dev_{best}_predictions.jsonl"
    text = (model_dir / "dev_predictions" / name).read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    pairs = [(row["label"], row["prediction"]) for row in rows]
    text = (model_dir / "results/sst_confusion.txt").read_text("utf-8")
    title, _, *lines = text.splitlines()
    assert title.startswith(f"sst dev, trial {best}:")
    for label, line in zip("01", lines, strict=False):
        counts = [str(pairs.count((label, other))) for other in "01"]
        assert line.split()[:3] == [label, *counts]
    for kind in ("curves", "confusion"):
        path = model_dir / f"results/sst_{kind}.png"
        assert path.exists() == config.run.write_plots


def test_test_rows_are_answered_for_the_server(done):
    _, model_dir, _ = done
    path = model_dir / "submissions/trial_1/SST-2.tsv"
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == "index\tprediction"
    assert [line.split("\t")[0] for line in lines[1:]] == [*"01234"]
    names = sorted(p.name for p in (model_dir / "test_predictions").iterdir())
    assert names == [
        "sst_test_1_predictions.jsonl",
        "sst_test_ensemble_predictions.jsonl",
    ]
    answers = (model_dir / "test_predictions" / names[0]).read_text("utf-8")
    answers = [json.loads(line) for line in answers.splitlines()]
    assert [a["prediction"] for a in answers] == [
        line.split("\t")[1] for line in lines[1:]
    ]


def test_what_a_trial_ends_with_is_a_checkpoint_for_every_command(done):
    _, model_dir, _ = done
    path = model_dir / "finetuning_models/sst_model_1/model"
    read = checkpoint_formats.read(str(path))
    assert read.architecture.tasks == {"sst": {"dense": (16, 2)}}
    assert read.architecture.encoder == tiny.ENCODER
    assert read.vocabulary == tiny.VOCABULARY and read.labels == ("0", "1")


def test_a_trial_that_is_done_is_kept(done, monkeypatch):
    config, _, whole = done
    monkeypatch.setattr(Trial, "_train", None)
    assert finetuning_run.run(config) == whole


def test_another_configuration_is_refused(done, data_dir):
    config = _config(data_dir, num_train_epochs=9.0)
    with pytest.raises(UserError, match="num_train_epochs: 8.0 there, 9.0 now"):
        finetuning_run.run(config)


class _Killer(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 10:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_resume_is_bit_exact(data_dir, tmp_path, monkeypatch):
    leaves = {"num_train_epochs": 3.0, "save_checkpoints_steps": 4}
    weights = []
    for name in ("whole", "killed"):
        copy = tmp_path / name
        shutil.copytree(
            data_dir, copy, ignore=shutil.ignore_patterns("finetuning_models")
        )
        config = _config(copy, **leaves)
        if name == "killed":
            with monkeypatch.context() as patch:
                patch.setattr(
                    callbacks, "ProgressBar", lambda *a, **k: _Killer()
                )
                with pytest.raises(StoppedBySignal):
                    finetuning_run.run(config)
        finetuning_run.run(config)
        trial = copy / "models/tiny/finetuning_models/sst_model_1"
        weights.append(bundles.read(trial / "model.ckpt-18"))
        log = (trial / "metrics.jsonl").read_text("utf-8").splitlines()
        steps = [json.loads(line)["step"] for line in log]
        assert steps == sorted(set(steps)) and steps[-1] == 18
    assert weights[0].keys() == weights[1].keys()
    for key, value in weights[0].items():
        np.testing.assert_array_equal(weights[1][key], value, err_msg=key)


def _fresh(tmp_path, labels="01"):
    """Makes a directory of its own whose training rows have these labels."""
    tiny.write_model(tmp_path)
    path = tiny.write_sst(tmp_path) / "train.tsv"
    header, *rows = path.read_text("utf-8").splitlines()
    rows = [row for row in rows if row[-1] in labels]
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return tmp_path


class _Failing:
    """Stands in for a trial: it fails until it was begun anew often enough."""

    FAILURES = 0

    def __init__(self, experiment, number, restart):
        self.restart = restart

    def run(self):
        return {"collapsed": self.restart < self.FAILURES}


@pytest.mark.parametrize(
    ("failures", "most", "expected"),
    [(0, 2, 0), (1, 2, 1), (9, 2, 2), (9, 0, 0)],
)
def test_a_trial_is_begun_anew_while_it_fails(
    failures, most, expected, monkeypatch
):
    monkeypatch.setattr(finetuning_run, "Trial", _Failing)
    monkeypatch.setattr(_Failing, "FAILURES", failures)
    config = tiny.config(max_restarts=most)
    experiment = Experiment(config, (), None, None)
    assert finetuning_run._run_trial(experiment, 1).restart == expected


def test_each_trial_and_each_restart_has_its_own_seed():
    experiment = Experiment(tiny.config(seed=7), (), None, None)
    pairs = [(number, restart) for number in (1, 2, 3) for restart in (0, 1)]
    trials = [Trial(experiment, *pair) for pair in pairs]
    assert trials[0].seed == 7 and trials[2].seed == 8
    assert len({trial.seed for trial in trials}) == len(pairs)
    assert len({trial.directory for trial in trials}) == len(pairs)


@pytest.mark.slow
def test_a_failed_trial_is_begun_anew_and_counted(tmp_path):
    data_dir = _fresh(tmp_path, labels="1")
    config = _config(data_dir, num_train_epochs=8.0, max_restarts=1)
    whole = finetuning_run.run(config)
    assert whole["num_restarts"] == 1 and whole["num_failed"] == 1
    assert whole["trials"][0]["seed"] == 1_000_000
    assert whole["summary"]["dev"]["accuracy"]["median"] == 50
    names = sorted(os.listdir(data_dir / "models/tiny/finetuning_models"))
    assert names == ["sst_model_1", "sst_model_1_restart_1"]


def test_training_stops_where_nothing_gets_better(tmp_path):
    config = _config(
        _fresh(tmp_path),
        learning_rate=1e-9,
        num_train_epochs=9.0,
        early_stopping=2,
    )
    trial = finetuning_run.run(config)["trials"][0]
    assert trial["step"] == 6 and trial["num_steps"] == 18


def test_only_a_trial_that_is_done_can_be_evaluated(tmp_path):
    config = _config(_fresh(tmp_path), do_train=False)
    with pytest.raises(UserError, match="trial that is done.*--do_train"):
        finetuning_run.run(config)


def test_a_misspelt_task_is_refused_before_anything_is_read():
    with pytest.raises(UserError, match="Did you mean sst"):
        finetuning_run.run(tiny.config(task_names=("sst2",)))


@pytest.mark.slow
def test_both_precisions_learn_the_task_alike(tmp_path):
    losses = {}
    for precision in ("float32", "bfloat16"):
        data_dir = _fresh(tmp_path / precision)
        config = _config(data_dir, precision=precision, num_train_epochs=8.0)
        whole = finetuning_run.run(config)
        assert whole["summary"]["dev"]["accuracy"]["median"] > 85
        log = data_dir / "models/tiny/finetuning_models/sst_model_1"
        lines = (log / "metrics.jsonl").read_text("utf-8").splitlines()
        losses[precision] = [json.loads(line)["loss"] for line in lines]
    exact, rounded = losses["float32"], losses["bfloat16"]
    assert rounded != exact
    assert exact[-1] < exact[0] / 2
    np.testing.assert_allclose(rounded, exact, atol=0.03)  # nats
