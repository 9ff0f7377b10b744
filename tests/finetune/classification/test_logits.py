"""What logits mean: one is a value, those of several labels independent."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf.checkpoint import loading
from electra_tf.finetune import export, scorer
from electra_tf.finetune import run as finetuning_run
from electra_tf.finetune.classification.classification_tasks import MULTI_LABEL
from electra_tf.finetune.preprocessing import Features
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

TEXTS = ["the good film", "it was a bad plot", "very", "the film was it"] * 2
LABELS = ("insult", "threat", "toxic")
SETS = [["toxic"], ["threat", "insult"], [], [*LABELS]] * 2
ROWS = [{"text": x, "label": y} for x, y in zip(TEXTS, SETS, strict=True)]
TARGETS = np.array([[label in labels for label in LABELS] for labels in SETS])
LEAVES = ("kernel", "bias")
Classifier = electra_tf.ElectraClassifier


def _theirs(path, *labels, **known):
    """Writes a classifier of Hugging Face's; returns a function of logits."""
    known |= {"labels": labels, "max_seq_length": 16}
    task = tiny.task("classification", head="hugging_face", metadata=known)
    stored = loading.read(tiny.write_trained(path / "ours", task))
    written = dataclasses.replace(stored, labels=labels)
    parts = {"networks": ("discriminator",), "kind": "sequence_classification"}
    loading.write(str(path / "hf"), written, "hf", **parts)

    def logits(*texts):
        """Computes dense, gelu, dense on the state of [CLS]."""
        reader = electra_tf.ElectraBackbone(tiny.ENCODER, tiny.VOCABULARY)
        ids = reader.preprocess(*map(tf.constant, texts))
        x = loading.make(written).encoder(**ids).pooled_output.numpy()
        scope = "task_specific/own/classifier"
        names = [f"{x}/{y}" for x in ("dense", "out_proj") for y in LEAVES]
        w, b, v, c = (written.arrays[f"{scope}/{name}"] for name in names)
        x = x @ w + b
        return (x * scipy.special.ndtr(x)) @ v + c

    return str(path / "hf"), logits


def test_one_logit_of_hugging_face_is_a_value(tmp_path):
    directory, logits = _theirs(tmp_path, "LABEL_0")
    with pytest.raises(UserError, match="ElectraRegressor"):
        Classifier.from_finetuned(directory)
    pair = TEXTS[:4], TEXTS[1:5]
    expected = logits(*pair)
    assert not ((expected >= 0) & (expected <= 1)).all()  # nothing is clipped
    model = electra_tf.ElectraRegressor.from_finetuned(directory)
    predictor = electra_tf.Predictor(directory)
    answers = predictor(zip(*pair, strict=True))
    served = export.served_model(predictor).answer_texts(*pair)["prediction"]
    for found in (
        model.predict(pair, verbose=0),
        [[answer["prediction"]] for answer in answers],
        served[:, tf.newaxis],
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_independent_labels_have_sigmoids(tmp_path):
    directory, logits = _theirs(tmp_path, *LABELS, problem_type=MULTI_LABEL)
    expected = 1 / (1 + np.exp(-logits(TEXTS)))
    sets = [np.compress(x > 0.5, LABELS).tolist() for x in expected]
    assert {*map(len, sets)} != {1}
    predictor = electra_tf.Predictor(directory)
    answers = predictor(TEXTS)
    assert [answer["prediction"] for answer in answers] == sets
    served = export.served_model(predictor).answer_texts(TEXTS)
    for found in (
        [[*answer["probabilities"].values()] for answer in answers],
        served["probabilities"],
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    shown = served["prediction"].numpy().tolist()
    assert [[x.decode() for x in row if x] for row in shown] == sets
    ours = tiny.convert(tmp_path, "hf", "again", "electra_tf")
    theirs = tiny.convert(tmp_path, "again", "theirs", "hf")
    for path in (directory, ours, theirs):
        assert Classifier.from_finetuned(path).classify(TEXTS) == sets
    config = json.loads((tmp_path / "theirs/config.json").read_text())
    assert config["problem_type"] == MULTI_LABEL


def _losses(logits):
    return np.logaddexp(0, np.where(TARGETS, -logits, logits)).mean(-1)


def test_a_column_of_lists_holds_sets_of_labels(tmp_path):
    path = tiny.write(tmp_path, "own", "train.jsonl", ROWS)
    task = tiny.task("classification", tmp_path, train_file=str(path))
    examples = task.get_examples("train")
    assert [list(example.label) for example in examples] == SETS
    features = Features(task.featurize(examples, is_training=True))
    batch = features.batch(tf.range(8), 16)
    np.testing.assert_array_equal(batch["label_ids"], TARGETS)
    logits = np.random.default_rng(0).normal(size=(8, 3))
    found = task.head().losses({"logits": np.float32(logits)}, batch)
    np.testing.assert_allclose(found, _losses(logits), rtol=1e-5)
    tiny.write(tmp_path, "own", "train.jsonl", [*ROWS, ROWS[0] | {"label": 1}])
    task = tiny.task("classification", tmp_path, train_file=str(path))
    with pytest.raises(UserError):
        task.get_examples("train")


@pytest.mark.slow
def test_sets_of_labels_are_learnt_from_lists(tmp_path):
    tiny.write_model(tmp_path)
    for split in ("train", "dev", "test"):
        tiny.write(tmp_path, "own", f"{split}.jsonl", ROWS)
    settings = {"task_names": ("own",), "task_kind": "classification"}
    settings |= {"num_trials": 1, "num_train_epochs": 40.0, "main_metric": "f1"}
    config = tiny.config(tmp_path, **settings, write_test_outputs=True)
    report = finetuning_run.run(config)
    assert report["summary"]["dev"]["accuracy"]["median"] == 100
    models = tmp_path / "models/tiny"
    trial = models / "finetuning_models/own_model_1"
    answers = electra_tf.Predictor(trial)(TEXTS)
    assert [{*x["prediction"]} for x in answers] == [*map(set, SETS)]
    model = Classifier.from_finetuned(str(trial))
    assert [*map(set, model.classify(TEXTS))] == [*map(set, SETS)]
    (file,) = models.glob("submissions/**/*.csv")
    assert json.loads(file.read_text().splitlines()[3].split(",")[1]) == []


def test_keras_learns_sets_of_labels(tmp_path):
    tiny.write_model(tmp_path)
    path, options = str(tmp_path / "models/tiny"), {"is_multi_label": True}
    with seeds.seed_initializers(0):
        model = Classifier.from_checkpoint(path, labels=LABELS, **options)
    model.compile(model.make_optimizer(1e-2), run_eagerly=True)
    losses = model.fit(TEXTS, SETS, 4, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < 0.95 * losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    logits = again.predict(TEXTS, verbose=0)
    scores = again.evaluate(TEXTS, SETS, verbose=0)
    expected = [_losses(logits).mean(), ((logits > 0) == TARGETS).mean()]
    assert scores == pytest.approx(expected, rel=1e-4)
    for labels in (["toxic", "rude"], [1, 0, 1]):
        with pytest.raises(UserError):
            model.dataset(TEXTS[:1], [labels])
    with pytest.raises(UserError):
        model.fit(TEXTS, SETS, class_weight={"toxic": 2.0})


def test_metrics_of_sets_count_sets_labels_and_decisions():
    targets = np.array([[1, 0], [1, 1], [0, 0], [0, 1]], bool)
    found = scorer.classification_metrics(targets, targets ^ [[1, 0]] * 4)
    assert found["accuracy"] == 0 and found["macro_f1"] == 50
    found = scorer.classification_metrics(targets, targets | [True, False])
    expected = {"accuracy": 50, "precision": 400 / 6, "recall": 100, "f1": 80}
    assert {x: found[x] for x in expected} == pytest.approx(expected)
